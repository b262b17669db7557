"""Worker processes: answers, exceptions, reports, time limits, losses and their end."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec

import pytest

from rlher.core import fork_server, workers
from rlher.core.errors import DamagedFile, RunError, UserError
from rlher.core.workers import Worker, WorkerLost, close_workers, report_progress


def test_the_fork_server_imports_modules_that_exist() -> None:
    assert all(find_spec(name) for name in fork_server.SEARCH_MODULES)


class Service:
    def __init__(self, mark: str = "") -> None:
        self.mark = mark

    def add(self, one, two):
        return one + two

    def make_function(self):
        return lambda: None

    def fail(self, error):
        raise error

    def read(self, path):
        raise DamagedFile(path, "it is empty")

    def work(self, steps: int, seconds: float) -> int:
        for _ in range(steps):
            time.sleep(seconds)
            report_progress()
        return steps

    def close(self):
        if self.mark:
            os.mkdir(self.mark)


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    started = []

    def build(service=Service) -> Worker:
        started.append(Worker(service))
        return started[-1]

    yield build
    close_workers(started)


def test_threads_that_start_workers_leave_the_main_module() -> None:
    main = sys.modules["__main__"]
    with ThreadPoolExecutor(8) as threads:
        close_workers(list(threads.map(lambda _: Worker(Service), range(8))))
    assert sys.modules["__main__"] is main


def test_a_worker_reports_an_answer_that_cannot_be_pickled(start) -> None:
    worker = start()
    worker.send("make_function")
    assert worker.receive(60) is None, "it is built"
    with pytest.raises(RunError, match="lambda"):
        worker.receive(60)
    worker.send("add", 1, 2)
    assert worker.receive(60) == 3


def test_a_worker_answers_and_continues_after_an_exception(start) -> None:
    worker = start()
    assert worker.receive(60) is None
    worker.send("fail", ValueError("too far"))
    with pytest.raises(ValueError, match="too far") as raised:
        worker.receive(60)
    assert "Traceback" in raised.value.__notes__[0]
    worker.send("read", "a.zip")  # DamagedFile cannot be unpickled
    with pytest.raises(UserError, match=r"a\.zip is damaged"):
        worker.receive(60)
    worker.send("add", 1, 2)
    assert worker.receive(60) == 3
    with pytest.raises(ZeroDivisionError):
        start(partial(divmod, 1, 0)).receive(60)


def test_a_report_restarts_the_time_limit(start) -> None:
    worker = start()
    worker.receive(60)
    worker.send("work", 4, 0.3)
    assert worker.receive(0.5) == 4
    worker.send("work", 1, 1)
    with pytest.raises(WorkerLost, match=r"hung \(no answer in 0.1 s\)"):
        worker.receive(0.1)


def test_closing_lets_a_service_close_and_kills_one_that_hangs(start, tmp_path, monkeypatch) -> None:
    polite, hanging = start(partial(Service, str(tmp_path / "closed"))), start()
    for worker in (polite, hanging):
        worker.receive(60)
    hanging.send("work", 1, 1000)
    monkeypatch.setattr(workers, "CLOSE_TIMEOUT", 1.0)
    started = time.monotonic()
    close_workers([polite, hanging])
    assert time.monotonic() - started < 5
    assert (tmp_path / "closed").exists()
    assert not polite.process.is_alive()
    assert not hanging.process.is_alive()


@pytest.mark.slow
def test_workers_need_no_shared_memory_folder() -> None:
    """Some containers have a read-only /dev/shm."""
    mounted = "mount -t tmpfs -o ro tmpfs /dev/shm &&"
    if subprocess.run(["unshare", "-rm", "sh", "-c", f"{mounted} true"], capture_output=True).returncode:
        pytest.skip("this user may not mount anything")
    program = """if 1:
        from rlher.core.workers import Worker, close_workers
        worker = Worker(dict)
        assert worker.receive(60) is None
        close_workers([worker])"""
    command = ["unshare", "-rm", "sh", "-c", f'{mounted} exec "$0" -c "$1"', sys.executable, program]
    subprocess.run(command, check=True)
