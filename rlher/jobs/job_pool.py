"""Run the jobs of a sweep or a search side by side, in worker processes or in tasks of a Ray cluster."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError, first_line, require_package
from rlher.core.reading import require_safe_to_write
from rlher.core.signals import interrupt_on_stop_signals
from rlher.core.workers import Worker, WorkerLost, close_workers
from rlher.jobs.job_source import Job, JobSource
from rlher.jobs.progress_table import ProgressTable

POLL_SECONDS = 1.0
"""How long a command waits for the end of a job before it shows the progress."""


class JobPool:
    """Runs ``workers=`` jobs at a time::

        with JobPool(config, ray_retries=-1) as pool:
            pool.run(SweepSource(runs))

    Each job has its own process or Ray task, and a thread of this process waits for the end of the job.

    :param ray_retries: how often Ray runs a job again if its node died; -1 for no limit.
    :raises UserError: Ray is not installed, or the head node of the cluster cannot be reached.
    """

    def __init__(self, config: TrainConfig, ray_retries: int) -> None:
        self._n_jobs = config.workers
        self._shows_progress = config.progress
        self._ray = _connect_ray(config) if config.launcher == "ray" else None
        options = {"num_cpus": config.threads or 1, "max_retries": ray_retries}
        self._make_task = partial(RayTask, ray=self._ray, options=options) if self._ray else LocalTask
        self._executor = ThreadPoolExecutor(config.workers)
        self._running: dict[Future, tuple[Any, LocalTask | RayTask]] = {}
        """The item and the task of each job whose end is not recorded yet."""

    def __enter__(self) -> "JobPool":
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
        if self._ray:
            self._ray.shutdown()  # so that the next sweep of this process can connect

    def run(self, jobs: JobSource) -> None:
        """Run jobs until there are no more.

        :raises KeyboardInterrupt: Ctrl-C or SIGTERM; the running jobs were stopped.
        """
        with ProgressTable(jobs, self._shows_progress) as table:
            try:
                while self._running or not jobs.is_complete():
                    for job in jobs.next_jobs(self._n_jobs - len(self._running)):
                        task = self._make_task(job)
                        self._running[self._executor.submit(task.run)] = job.item, task
                    table.update()
                    if not self._running:  # other commands run the last jobs
                        time.sleep(POLL_SECONDS)
                    for future in wait(self._running, POLL_SECONDS, FIRST_COMPLETED).done:
                        item, _ = self._running.pop(future)
                        jobs.on_end(item, future.exception())
            except BaseException:
                self._stop()
                jobs.on_interrupt()
                table.update()
                raise
            table.update()

    def _stop(self) -> None:
        """Interrupt all jobs as Ctrl-C does, and wait until they have ended. Another Ctrl-C kills them."""
        if self._running:
            print("\nrlher: stopping each run after its step; Ctrl-C kills them at once", file=sys.stderr)
        try:
            while not all(future.done() for future in self._running):
                for _, task in self._running.values():  # repeated: a process that begins a job may miss the signal
                    task.interrupt()
                wait(self._running, POLL_SECONDS)
        except KeyboardInterrupt:
            for _, task in self._running.values():
                task.kill()


class LocalTask:
    """Runs a job in a worker process of this machine."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._worker: Worker | None = None

    def run(self) -> None:
        """Run the job and wait for its end."""
        self._worker = worker = Worker(JobService)
        try:
            worker.receive(None)
            worker.send("run", self.job.function, self.job.log)
            worker.receive(None)
        finally:
            close_workers([worker])

    def interrupt(self) -> None:
        """Stop the job as Ctrl-C does, if it has a process. This may be called again."""
        if self._worker:
            self._worker.process.terminate()

    def kill(self) -> None:
        """End the job at once."""
        if self._worker:
            self._worker.process.kill()


class RayTask:
    """Runs a job in a task of a Ray cluster, with the same methods as :class:`LocalTask`.

    :param ray: the module.
    :param options: options of the task.
    """

    def __init__(self, job: Job, ray: Any, options: Mapping[str, Any]) -> None:
        self.job = job
        self._ray, self._options = ray, options
        self._task: Any = None
        self._is_interrupted = False

    def run(self) -> None:
        """Run the job and wait for its end."""
        function = self._ray.remote(**self._options)(_call_in_folder)
        self._task = function.remote(os.getcwd(), self.job.function, self.job.log)
        try:
            self._ray.get(self._task)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            raise WorkerLost(f"its process was lost: {error}") from error

    def interrupt(self) -> None:
        """Stop the job. Ray sends SIGINT: at the first one a run ends after its step, at a second one at once."""
        if self._task is not None and not self._is_interrupted:
            self._is_interrupted = True
            self._ray.cancel(self._task)

    def kill(self) -> None:
        """End the job at once."""
        if self._task is not None:
            self._ray.cancel(self._task, force=True)


# ------------------------------------------------------------------------------------------- in a worker


class JobService:
    """The service of a worker: it runs a job."""

    def run(self, function: Callable[[], None], log: Path) -> None:
        """Call a function until it ends, the worker gets SIGTERM, or the command that started the worker dies."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command, which then stops its workers
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        try:
            with interrupt_on_stop_signals():
                _call_with_log(function, log)
        except KeyboardInterrupt:
            raise WorkerLost("its process was stopped") from None


def _stop_with_parent() -> None:
    """Interrupt the call, as SIGTERM does, when the command that started this process dies."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _call_in_folder(folder: str, function: Callable[[], None], log: Path) -> None:
    """Call a function in the command's folder, if this machine has it. Relative paths in the config refer to it."""
    if os.path.isdir(folder):
        os.chdir(folder)
    _call_with_log(function, log)


def _call_with_log(function: Callable[[], None], log: Path) -> None:
    """Call a function, and append the output of this process to ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    require_safe_to_write(log)
    with log.open("a") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    try:
        function()
    except Exception:
        traceback.print_exc()
        raise


def _connect_ray(config: TrainConfig) -> Any:
    """Return the module ``ray``, connected to the cluster."""
    require_package("launcher=ray", "ray")
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local = {"include_dashboard": False, "num_cpus": config.workers * (config.threads or 1)}
    options: dict[str, Any] = {} if config.ray_address else local
    try:
        with contextlib.chdir(sys.prefix):  # Ray's workers import modules from their start folder
            ray.init(address=config.ray_address or "local", log_to_driver=False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(f"no Ray cluster answers at ray_address={config.ray_address}: {first_line(error)}.") from error
    return ray
