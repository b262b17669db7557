"""Functions called side by side, in worker processes of this machine or in tasks of a Ray cluster.

Sweeps and searches use it::

    with Pool(config, reuse=True, ray_retries=0) as pool:
        futures = [pool.submit(function, Path("seed=3.log")), …]
        done, _ = concurrent.futures.wait(futures)
"""

import contextlib
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from rlher import COMMAND
from rlher.config.tuning import WorkersConfig
from rlher.core import workers
from rlher.core.errors import UserError, exit_as_fault, require_package
from rlher.core.signals import interrupt_on_stop_signals
from rlher.core.workers import BUILD_SECONDS, Timeout, Worker, WorkerLost, close_workers

MODULES = ("rlher.training.resume", "rlher.tuning.trials", "sb3_contrib", "scipy.stats")
"""What training runs and trials import, some of it late."""

POLL_SECONDS = 1.0
"""How long commands wait for the end of a call before they show their progress."""


class Pool:
    """Context manager that calls functions in ``workers=`` workers; the end of its block stops them.

    Functions and what they return can be pickled. A thread of this process waits for each call.

    :param reuse: let a process of this machine call several functions, one after the other.
    :param ray_retries: how often Ray calls a function again if its node died; -1: without limit.
    :raises UserError: Ray is not installed, or its head cannot be reached.
    """

    def __init__(self, config: WorkersConfig, reuse: bool, ray_retries: int) -> None:
        self.size, self._reuse = config.workers, reuse
        self._ray_options = {"num_cpus": config.threads or 1, "max_retries": ray_retries}
        self._ray = _connect_ray(config) if config.launcher == "ray" else None
        self._threads = ThreadPoolExecutor(config.workers)
        self._futures: set[Future] = set()
        self._running: list[Any] = []
        """Worker processes that call a function, or tasks of Ray."""
        self._idle: list[Worker] = []
        self._is_stopped = False

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop(None)

    def count_machines(self) -> int:
        """Return the number of machines of the Ray cluster, 1 without Ray."""
        nodes = self._ray.nodes() if self._ray else []
        return len({node["NodeManagerHostname"] for node in nodes if node["Alive"]}) or 1

    def submit(self, function: Callable[[], Any], log: Path) -> Future:
        """Call a function as soon as a worker is free.

        :param log: file to which the output of a process of this machine is appended.
        :return: what the function returns or raises; WorkerLost if the worker died.
        """
        future = self._threads.submit(self._call_on_ray if self._ray else self._call_here, function, log)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def _call_here(self, function: Callable[[], Any], log: Path) -> Any:
        worker = self._idle.pop() if self._idle else _new_worker()
        self._running.append(worker)
        try:
            if self._is_stopped:
                raise WorkerLost("was stopped")
            worker.send("call", function, log, os.environ.get(COMMAND, ""))
            return worker.receive(Timeout(None))
        finally:
            self._running.remove(worker)
            if self._reuse and worker.process.is_alive() and not self._is_stopped:
                self._idle.append(worker)
            else:
                close_workers([worker])

    def _call_on_ray(self, function: Callable[[], Any], log: Path) -> Any:
        ray: Any = self._ray
        task = ray.remote(**self._ray_options)(_call_in).remote(os.getcwd(), function)
        self._running.append(task)
        try:
            return ray.get(task)
        except ray.exceptions.RayError as error:
            raise WorkerLost(str(error)) from error
        finally:
            self._running.remove(task)

    def stop(self, seconds: float | None) -> None:
        """Interrupt all calls as Ctrl-C does, and wait until they have ended.

        Calls that need more than some seconds, or another Ctrl-C, are killed.
        """
        self._is_stopped = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + (math.inf if seconds is None else seconds)
        try:
            while self._futures and time.monotonic() < deadline:
                for each in list(self._running):  # repeated, because a process that begins a call may miss the signal
                    self._ray.cancel(each, force=True) if self._ray else each.process.terminate()
                wait(list(self._futures), POLL_SECONDS)
        except KeyboardInterrupt:
            pass
        if not self._ray:
            for worker in list(self._running):
                worker.kill()
            close_workers(self._idle)


def _new_worker() -> Worker:
    worker = Worker(_Caller, MODULES)
    worker.receive(Timeout(BUILD_SECONDS))
    return worker


# ------------------------------------------------------------------------------------------- in a worker


class _Caller:
    """The service of a worker process."""

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command, which then stops its workers
        threading.Thread(target=_stop_with_parent, daemon=True).start()

    def call(self, function: Callable[[], Any], log: Path, command: str) -> Any:
        """Return what a function returns; its output is appended to ``log``."""
        os.environ[COMMAND] = command  # the process may be older than the command line
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
                os.dup2(file.fileno(), stream.fileno())
        try:
            with exit_as_fault(), interrupt_on_stop_signals():
                return function()
        except KeyboardInterrupt:
            raise WorkerLost("was stopped") from None
        except Exception:
            traceback.print_exc()
            raise


def _stop_with_parent() -> None:
    """Interrupt the call, as SIGTERM does, when the command that started this process dies."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _call_in(folder: str, function: Callable[[], Any]) -> Any:
    """Call a function in the command's folder, to which relative paths in its config refer, if this machine has it."""
    if os.path.isdir(folder):
        os.chdir(folder)
    return function()


# ------------------------------------------------------------------------------------------ in the command


def start_imports(config: WorkersConfig) -> None:
    """Start to import what workers of this machine need, while this process imports other modules."""
    if config.launcher == "local":
        workers.start_server(MODULES)


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
