"""Schedules of a number, such as the learning rate, over a run."""

from collections.abc import Callable
from dataclasses import dataclass

from stable_baselines3.common.utils import LinearSchedule

from rlher.core.user_code import instance_of, resolve


@dataclass(frozen=True)
class ScaledSchedule:
    """``start`` times a function of the share of the run that remains, from 1 to 0."""

    start: float
    factor: Callable[[float], float]

    def __call__(self, progress_remaining: float) -> float:
        """Return the number where that share of the run remains."""
        return self.start * float(self.factor(progress_remaining))


def make_schedule(kind: str, start: float) -> "Callable[[float], float] | float":
    """Return a schedule in the form that Stable-Baselines3's constructors take.

    :param kind: one of :data:`rlher.config.algorithms.SCHEDULES`, or ``module:function`` of the user's own, see
        :class:`ScaledSchedule`.
    :param start: the number at the beginning.
    """
    if ":" in kind:
        return ScaledSchedule(start, instance_of(resolve("algo.learning_rate_schedule", kind, {})))
    return LinearSchedule(start, 0.0, 1.0) if kind == "linear" else start
