"""Bounds of the target network's values, computed from the range of the reward."""

import math
from typing import Any

from rlher.core.errors import UserError

Bounds = tuple[float | None, float | None]
"""Lowest and highest value; None if there is no such bound."""


def resolve_target_q_bounds(value: Any, reward_range: list[float | None] | None, gamma: float) -> Bounds | None:
    """Return the bounds of target values for a value of the config key ``target_q_bounds``.

    No return lies outside [min(low, 0), max(high, 0)] / (1-gamma), so no target should lie outside either. OpenAI
    baselines' HER clips its targets to such bounds (``clip_return``). Hiraoka 2023 (arXiv:2312.05787) calls this
    bounded Q and finds it important for learning sparse goal tasks fast.

    :param value: value of the key: ``"auto"``, None, or a pair in which each entry is a number or None.
    :param reward_range: lowest and highest reward of one step (low and high above); each is None if unknown.
    :param gamma: discount factor in [0, 1].
    :return: lowest and highest target, or None if there are no bounds. Bounds from ``"auto"`` include 0, because an
        episode may end at any step.
    :raises UserError: ``value`` has another form.
    """
    if value is None:
        return None
    if value == "auto":
        low, high = reward_range if reward_range and gamma < 1.0 else (None, None)
        low = None if low is None else min(low, 0.0) / (1.0 - gamma)
        high = None if high is None else max(high, 0.0) / (1.0 - gamma)
    elif isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_bound, value)):
        low, high = value
        if low is not None and high is not None and low >= high:
            raise UserError(f"algo.target_q_bounds={value} has a low bound that is not below the high one; swap them.")
    else:
        raise UserError(f"algo.target_q_bounds={value!r} is not valid; use auto, null, or a pair such as [-20, 0].")
    return None if low is None and high is None else (low, high)


def _is_bound(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and math.isfinite(value))
