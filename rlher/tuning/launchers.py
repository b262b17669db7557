"""Launchers of workers: processes of this machine, or tasks of a Ray cluster."""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rlher import COMMAND
from rlher.config.tuning import WorkersConfig
from rlher.core import workers
from rlher.core.errors import UserError, require_package
from rlher.core.signals import INTERRUPTED
from rlher.tuning.worker_id import worker_id

MODULES = ("rlher.training.resume", "rlher.tuning.worker", "rlher.tuning.objective", "sb3_contrib", "scipy.stats")
"""What training runs and trials import, some of it late."""

_CONTEXT = multiprocessing.get_context("forkserver")


@dataclass(frozen=True)
class Task:
    """What a worker does.

    :param function: can be pickled; returns the worker's exit code, None for 0.
    :param log: file for the output of a process of this machine; ``{worker}`` in it stands for host and process id.
    :param cores: reserved by Ray.
    """

    function: Callable[[], int | None]
    log: Path
    cores: int


class LocalWorker:
    """A process of this machine."""

    def __init__(self, task: Task) -> None:
        workers.start_server(MODULES)
        command = os.environ.get(COMMAND, "")  # the fork server may be older than this command
        self._process: BaseProcess = _CONTEXT.Process(target=_run_process, args=(task, command))
        self._process.start()
        self.id: str | None = worker_id(self._process.pid)
        """Its id in the trials' attributes."""

    @property
    def sentinel(self) -> int:
        """A file descriptor that becomes readable when the process ends."""
        return self._process.sentinel

    def is_alive(self) -> bool:
        """Return whether the process is running."""
        return self._process.is_alive()

    def exit_code(self) -> int:
        """Return the exit code of the process, which has ended; minus the signal that killed it."""
        return self._process.exitcode or 0

    def stop(self) -> None:
        """Send SIGTERM, which ends a training run like Ctrl-C; the trial of a worker is queued again."""
        self._process.terminate()

    def join(self, seconds: float | None) -> None:
        """Wait some seconds, without a limit if None, until the process has ended."""
        self._process.join(seconds)

    def kill(self) -> None:
        """Kill the process if it is still running."""
        self._process.kill()
        self._process.join()


def _run_process(task: Task, command: str) -> None:
    if command:
        os.environ[COMMAND] = command
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command, which then stops its workers
    signal.pthread_sigmask(signal.SIG_UNBLOCK, workers.RUN_SIGNALS)
    _redirect_output(task.log)
    try:
        code = task.function()
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _redirect_output(path: Path) -> None:
    """Redirect stdout and stderr, of C libraries too, to a log file of this process."""
    host, pid, _ = worker_id().rsplit(":", 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name.replace("{worker}", f"{host}-{pid}")).open("a") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())


class RayWorker:
    """A task of a Ray cluster, which Ray restarts on another node if its node dies."""

    def __init__(self, ray: Any, task: Task) -> None:
        self._ray = ray
        self._task = ray.remote(num_cpus=task.cores, max_retries=-1)(_call).remote(task.function, os.getcwd())
        self.id: str | None = None  # not known here

    def is_alive(self) -> bool:
        """Return whether the task is running or waiting for a core."""
        return not self._ray.wait([self._task], timeout=0)[0]

    def exit_code(self) -> int:
        """Return the exit code of the task, which has ended; if it raised, print the error and return 1."""
        try:
            return self._ray.get(self._task) or 0
        except self._ray.exceptions.RayError as error:
            print(f"rlher: {error}", file=sys.stderr)
            return 1

    def stop(self) -> None:
        """Cancel the task."""
        self._ray.cancel(self._task, force=True)

    def join(self, seconds: float | None) -> None:
        """Return at once; Ray ends cancelled tasks."""

    def kill(self) -> None:
        """Return at once; Ray ends cancelled tasks."""


def _call(function: Callable[[], int | None], folder: str) -> int | None:
    """Call a function in the command's folder, to which relative paths in its config refer, if this machine has it."""
    if os.path.isdir(folder):
        os.chdir(folder)
    return function()


Worker = LocalWorker | RayWorker
Launcher = Callable[[Task], Worker]
"""Starts a worker."""


def start_imports(config: WorkersConfig) -> None:
    """Start the imports of the workers of this machine beside those of this process."""
    if config.launcher == "local":
        workers.start_server(MODULES)


def make_launcher(config: WorkersConfig) -> Launcher:
    """Return the launcher of ``launcher=``.

    :raises UserError: Ray is not installed, or its head cannot be reached.
    """
    return functools.partial(RayWorker, _connect_ray(config)) if config.launcher == "ray" else LocalWorker


def wait_for_any(workers: Sequence[Worker], seconds: float) -> None:
    """Wait until a process of this machine ends, some seconds at most."""
    sentinels = [worker.sentinel for worker in workers if isinstance(worker, LocalWorker)]
    if sentinels:
        connection.wait(sentinels, seconds)
    else:
        time.sleep(seconds)


def stop_all(workers: Sequence[Worker], seconds: float | None) -> None:
    """Stop workers and wait until they have ended; kill those that still run after some seconds or at Ctrl-C."""
    try:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(seconds)
    except KeyboardInterrupt:
        pass
    for worker in workers:
        worker.kill()


def _connect_ray(config: WorkersConfig) -> Any:
    """Return the module ``ray``, connected to the cluster."""
    require_package("launcher=ray", "ray")
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {}
    if not config.ray_address:
        options = {"include_dashboard": False, "num_cpus": config.workers * (config.threads or 1)}
    try:
        with contextlib.chdir(sys.prefix):  # Ray's workers import modules from the folder they are started in
            ray.init(address=config.ray_address or "local", log_to_driver=False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"no Ray cluster answers at ray_address={config.ray_address}: {reason}") from error
    return ray


def count_machines() -> int:
    """Return the number of machines of the cluster that :func:`make_launcher` connected to."""
    import ray

    return len({node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]})
