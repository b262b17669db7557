"""Launchers of workers: processes of this machine, or tasks of a Ray cluster."""

import functools
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import UserError
from rlher.tuning.worker import WorkerSpec, run_worker
from rlher.tuning.worker_id import worker_id

STOP_SECONDS = 15.0


class LocalWorker:
    """A process of this machine, spawned because a fork of a process that has used torch may hang."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._process: BaseProcess = get_context("spawn").Process(target=_run_process, args=(spec,))
        self._process.start()
        self.id: str | None = worker_id(self._process.pid)
        """Its id in the trials' attributes."""

    def is_alive(self) -> bool:
        """Return whether the process is running."""
        return self._process.is_alive()

    def has_failed(self) -> bool:
        """Return whether the process died instead of finishing."""
        return self._process.exitcode != 0

    def stop(self) -> None:
        """Send SIGTERM, which ends a training run like Ctrl-C; its trial is queued again."""
        self._process.terminate()

    def join(self) -> None:
        """Wait until the process has stopped; kill it after :data:`STOP_SECONDS`."""
        self._process.join(STOP_SECONDS)
        self._process.kill()
        self._process.join()


def _run_process(spec: WorkerSpec) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command, which then stops its workers
    _redirect_output(spec.folder / "workers")
    try:
        run_worker(spec)
    except KeyboardInterrupt:
        sys.exit(1)


def _redirect_output(folder: Path) -> None:
    """Redirect stdout and stderr, of C libraries too, to a log file of this process."""
    folder.mkdir(parents=True, exist_ok=True)
    host, pid, _ = worker_id().rsplit(":", 2)
    with (folder / f"{host}-{pid}.log").open("a") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())


class RayWorker:
    """A task of a Ray cluster, which Ray restarts on another node if its node dies."""

    def __init__(self, ray: Any, spec: WorkerSpec) -> None:
        self._ray = ray
        cores = spec.config.threads or 1
        self._task = ray.remote(num_cpus=cores, max_retries=-1)(run_worker).remote(spec)
        self.id: str | None = None  # not known here

    def is_alive(self) -> bool:
        """Return whether the task is running or waiting for a core."""
        return not self._ray.wait([self._task], timeout=0)[0]

    def has_failed(self) -> bool:
        """Return whether the task raised; print the error."""
        try:
            self._ray.get(self._task)
        except self._ray.exceptions.RayError as error:
            print(f"rlher: {error}", file=sys.stderr)
            return True
        return False

    def stop(self) -> None:
        """Cancel the task."""
        self._ray.cancel(self._task, force=True)

    def join(self) -> None:
        """Return at once; Ray ends cancelled tasks."""


Worker = LocalWorker | RayWorker
Launcher = Callable[[WorkerSpec], Worker]
"""Starts a worker."""


def make_launcher(config: OptimizeConfig) -> Launcher:
    """Return the launcher of ``launcher=``.

    :raises UserError: Ray is not installed, its head cannot be reached, or several machines would share a journal file.
    """
    return functools.partial(RayWorker, _connect_ray(config)) if config.launcher == "ray" else LocalWorker


def _connect_ray(config: OptimizeConfig) -> Any:
    """Return the module ``ray``, connected to the cluster."""
    try:
        import ray
    except ImportError:
        raise UserError("--launcher ray needs Ray; pip install 'rlher[ray]'.") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {}
    if not config.ray_address:
        options = {"include_dashboard": False, "num_cpus": config.workers * (config.threads or 1)}
    try:
        ray.init(address=config.ray_address or "local", log_to_driver=False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"no Ray cluster answers at ray_address={config.ray_address}: {reason}") from error
    machines = {node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}
    if config.storage is None and len(machines) > 1:
        raise UserError("the machines of a cluster cannot share a journal file; give --storage postgresql://...")
    return ray
