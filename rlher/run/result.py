"""The result of a training run, ``result.json``."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ShouldStop = Callable[[list[dict[str, Any]]], bool]
"""A function that gets the rows of ``evaluations.csv`` after each evaluation, and returns whether the run ends now."""


class Status(StrEnum):
    """The state of a training run. ``result.json`` has how it ended; sweeps also have runs that wait or are trained."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    """By Ctrl-C or SIGTERM."""
    STOPPED = "stopped"
    """By the ``should_stop`` function of its caller, such as Optuna's pruner."""
    FAILED = "failed"


@dataclass
class RunResult:
    """The result of a training run.

    :param error: why the run failed, without full stop, or None if it did not fail.
    :param wall_seconds: seconds since the command started. A resumed run adds the seconds of its earlier parts.
    :param final: summary of the final evaluation of the last model; empty if there was no final evaluation.
    :param best: final evaluation of the best model, with the step at which it was saved (``timesteps``).
    :param evaluations: the rows of ``evaluations.csv``.
    """

    status: Status = Status.FAILED
    error: str | None = None
    timesteps: int = 0
    wall_seconds: float = 0.0
    final: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Any] | None = None
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of ``result.json``, with the final evaluation at the top level, beside the status."""
        return {
            "status": self.status,
            "error": self.error,
            "timesteps": self.timesteps,
            "wall_seconds": self.wall_seconds,
            "model": "last",
            **self.final,
            **({} if self.best is None else {"best": self.best}),
        }
