"""The tracking services of ``logger=<name>``: one line each, imported only when used."""

from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from rlher.core.errors import UserError
from rlher.runs.run_folder import Run
from rlher.training import messages


class Service(Protocol):
    """A tracking service that records one run."""

    def __init__(self, run: Run) -> None: ...

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log numbers of one step."""

    def finish(self, result: dict[str, float], status: str) -> None:
        """Log the result, and end the run with a :class:`~rlher.training.result.Status`."""


SERVICES = {
    "wandb": "WandbService",
    "mlflow": "MlflowService",
}
"""Class of each service, by name of its package, which is also the name of its module in this folder."""


def load_service(name: str) -> type[Service]:
    """Import a service."""
    service: type[Service] = getattr(import_module(f"rlher.training.loggers.{name}"), SERVICES[name])
    return service


def require_installed(name: str) -> None:
    """Raise UserError if the package of a service is not installed; ``"none"`` needs none."""
    if name in SERVICES and find_spec(name) is None:
        raise UserError(messages.not_installed(name))
