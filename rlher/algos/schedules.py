"""Schedules of a number, such as the learning rate, over a run."""

from collections.abc import Callable

from stable_baselines3.common.utils import LinearSchedule

from rlher.core.user_code import bind_arguments, import_object

DECAY_SHARE = 0.25
"""``constant_then_linear`` falls during this last share of a run."""


def make_schedule(schedule: str, start: float, key: str) -> "Callable[[float], float] | float":
    """Return a schedule in the form that Stable-Baselines3's constructors take.

    :param schedule: one of :data:`rlher.config.algorithms.SCHEDULES`, or ``module:function`` of a user's function. The
        function gets the share of the run that remains (from 1 to 0), and returns a factor for ``start``.
    :param start: value at the beginning of the run.
    :param key: config key of the schedule, for messages.
    """
    if ":" in schedule:
        factor = bind_arguments(key, import_object(key, schedule), {})
        return lambda progress_remaining: start * float(factor(progress_remaining))
    if schedule == "constant_then_linear":
        return lambda progress_remaining: start * min(1.0, progress_remaining / DECAY_SHARE)
    return LinearSchedule(start, 0.0, 1.0) if schedule == "linear" else start
