"""The result of a training run: its status and final evaluation, stored as ``result.json``."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rlher.core.errors import EnvironmentFault
from rlher.core.signals import INTERRUPTED


class Status(StrEnum):
    """How a training run ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    """By Ctrl-C or SIGTERM."""
    STOPPED = "stopped"
    """By the ``on_evaluation`` function of its caller, such as Optuna's pruner."""
    FAILED = "failed"


@dataclass
class RunResult:
    """The result of a training run.

    :param error: why it failed; None otherwise.
    :param wall_seconds: seconds since the command started; in a resumed run with those of training before it.
    :param final: summary of the final evaluation of the last model; empty when it was not played.
    :param best: the same of the best model, with the ``timesteps`` after which it was saved.
    """

    status: Status = Status.FAILED
    error: str | None = None
    timesteps: int = 0
    wall_seconds: float = 0.0
    final: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Any] | None = None

    @property
    def exit_code(self) -> int:
        """Exit code of `rlher train`: 0, 130 after Ctrl-C or SIGTERM, else 1."""
        return {Status.FINISHED: 0, Status.INTERRUPTED: INTERRUPTED}.get(self.status, EnvironmentFault.exit_code)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``result.json``: the final evaluation's rates stand beside the status."""
        values = {
            "status": self.status.value,
            "error": self.error,
            "checkpoint": "last",
            "timesteps": self.timesteps,
            "wall_seconds": self.wall_seconds,
            **self.final,
        }
        return values if self.best is None else {**values, "best": self.best}
