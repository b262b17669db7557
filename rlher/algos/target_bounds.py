"""Bounded target values: no return can leave [low/(1-gamma), high/(1-gamma)], so no target should either.

OpenAI baselines' HER clips its targets so (``clip_return``); Hiraoka 2023 (arXiv:2312.05787) calls it bounded Q and
finds it a large part of what makes sparse goal tasks learn fast.
"""

import math
from typing import Any

import torch as th
from torch import nn

from rlher.core.errors import UserError

Bounds = tuple[float | None, float | None]


def resolve(wanted: Any, reward_range: list[float | None] | None, gamma: float) -> Bounds | None:
    """Turn the config key ``target_q_bounds`` into numbers.

    :param wanted: ``"auto"``, None, or a pair of numbers, either of which may be None.
    :param reward_range: lowest and highest reward of one step, None where unknown.
    :param gamma: discount factor in [0, 1].
    :return: lowest and highest possible target, or None where nothing is bounded. An episode may end at any step, so a
        bound always includes 0.
    :raises UserError: ``wanted`` is none of these.
    """
    if wanted is None or wanted == "off":
        return None
    if wanted == "auto":
        if reward_range is None or gamma == 1.0:
            return None
        if len(reward_range) != 2:
            raise UserError(f"env.reward_range={reward_range} is not a pair such as [-1, 0].")
        low, high = reward_range
        bounds = (
            None if low is None else min(low, 0.0) / (1.0 - gamma),
            None if high is None else max(high, 0.0) / (1.0 - gamma),
        )
        return None if bounds == (None, None) else bounds
    if (
        isinstance(wanted, list | tuple)
        and len(wanted) == 2
        and all(bound is None or (isinstance(bound, int | float) and math.isfinite(bound)) for bound in wanted)
    ):
        low, high = wanted
        if low is not None and high is not None and low >= high:
            raise UserError(f"algo.target_q_bounds={wanted}: the low bound must be below the high one.")
        return None if low is None and high is None else (low, high)
    raise UserError(f"algo.target_q_bounds={wanted!r} is neither auto, null, nor a pair such as [-20, 0].")


def bound(network: nn.Module, bounds: Bounds) -> None:
    """Clamp everything ``network`` returns, a tensor or a tuple of them, to ``bounds``.

    For Stable-Baselines3's own update step: every algorithm there reads its target network through ``__call__``, so a
    forward hook reaches all of them. Hooks are no part of a saved model.
    """
    low, high = bounds

    def clamp(module: nn.Module, inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return tuple(th.clamp(value, low, high) for value in output)
        return th.clamp(output, low, high)

    network.register_forward_hook(clamp)
