"""Schedules of a number, such as the learning rate, over a run."""

import math
from dataclasses import dataclass

from stable_baselines3.common.utils import LinearSchedule


@dataclass(frozen=True)
class CosineSchedule:
    """Half a cosine from ``start`` down to 0 (Loshchilov & Hutter 2017, arXiv:1608.03983, without restarts).

    It changes little at the beginning and at the end.
    """

    start: float

    def __call__(self, progress_remaining: float) -> float:
        """Return the number where that share of the run remains."""
        return self.start * 0.5 * (1 - math.cos(math.pi * progress_remaining))


def make_schedule(kind: str, start: float) -> "LinearSchedule | CosineSchedule | float":
    """Return a schedule in the form that Stable-Baselines3's constructors take.

    :param kind: one of :data:`rlher.config.algorithms.SCHEDULES`.
    :param start: the number at the beginning.
    """
    if kind == "linear":
        return LinearSchedule(start, 0.0, 1.0)
    return CosineSchedule(start) if kind == "cosine" else start
