"""Where workers run: processes of this machine, or tasks of a Ray cluster."""

import os
import signal
import sys
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import UserError
from rlher.tuning import worker
from rlher.tuning.worker import Order
from rlher.tuning.worker_id import worker_id

STOP_SECONDS = 15.0


class Worker(Protocol):
    """A worker that was started."""

    id: str | None
    """As its trials name it, where that is known here."""

    def alive(self) -> bool:
        """Tell whether it still works."""

    def failed(self) -> bool:
        """Tell, once it does not, whether it died instead of ending."""

    def stop(self) -> None:
        """Ask it to stop."""

    def join(self) -> None:
        """Wait until it has stopped, and see to it."""


class Launcher(Protocol):
    """Starts workers."""

    def start(self, order: Order) -> Worker:
        """Start one."""


class LocalWorker:
    """A process of this machine. It is spawned, because a fork of a process that ran torch may hang."""

    def __init__(self, order: Order) -> None:
        self._process: BaseProcess = get_context("spawn").Process(target=_work, args=(order,))
        self._process.start()
        self.id: str | None = worker_id(self._process.pid)

    def alive(self) -> bool:
        """Tell whether it still works."""
        return self._process.is_alive()

    def failed(self) -> bool:
        """Tell whether it died instead of ending."""
        return self._process.exitcode != 0

    def stop(self) -> None:
        """Send SIGTERM, on which a run in training ends as with Ctrl-C and its trial is queued again."""
        self._process.terminate()

    def join(self) -> None:
        """Wait until it has stopped; send SIGKILL where it does not."""
        self._process.join(STOP_SECONDS)
        self._process.kill()


def _work(order: Order) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which then stops its workers
    _log_to(order.folder / "workers")
    try:
        worker.run(order)
    except KeyboardInterrupt:
        sys.exit(1)


def _log_to(folder: Path) -> None:
    """Send all that this process prints, C libraries included, to a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    host, pid, _ = worker_id().rsplit(":", 2)
    with (folder / f"{host}-{pid}.log").open("a") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())


class Local:
    """Workers are processes of this machine."""

    def start(self, order: Order) -> Worker:
        """Spawn one."""
        return LocalWorker(order)


class RayWorker:
    """A task of a Ray cluster; Ray starts it again elsewhere where its node dies."""

    def __init__(self, ray: Any, order: Order) -> None:
        self._ray = ray
        cores = order.config.threads or 1
        self._task = ray.remote(num_cpus=cores, max_retries=-1)(worker.run).remote(order)
        self.id: str | None = None

    def alive(self) -> bool:
        """Tell whether it still works, or waits for a core."""
        return not self._ray.wait([self._task], timeout=0)[0]

    def failed(self) -> bool:
        """Tell whether it died instead of ending."""
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
        """Leave it to Ray."""


class Ray:
    """Workers are tasks of a Ray cluster.

    :raises UserError: Ray is not installed, its head cannot be reached, or a journal file is to serve several machines.
    """

    def __init__(self, config: OptimizeConfig) -> None:
        try:
            import ray
        except ImportError:
            raise UserError("--launcher ray needs Ray: pip install 'rlher[ray]'.") from None
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            options: dict[str, Any] = (
                {}
                if config.ray_address
                else {"include_dashboard": False, "num_cpus": config.workers * (config.threads or 1)}
            )
            ray.init(address=config.ray_address or "local", log_to_driver=False, **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UserError(f"cannot reach Ray at {config.ray_address}: {str(error).splitlines()[0]}") from error
        machines = {node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}
        if config.storage is None and len(machines) > 1:
            raise UserError("a cluster of several machines shares no journal file: give --storage postgresql://...")
        self._ray = ray

    def start(self, order: Order) -> Worker:
        """Submit one."""
        return RayWorker(self._ray, order)


def launcher(config: OptimizeConfig) -> Launcher:
    """Make the launcher a config names."""
    return Ray(config) if config.launcher == "ray" else Local()
