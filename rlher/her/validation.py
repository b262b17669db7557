"""Checks of the buffer's constructor arguments, and warnings about arguments without effect."""

import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rlher.her.choices import (
    DEFAULT_MIX,
    KEY_TO_GOAL_STRATEGY,
    ORIGINAL,
    PRIORITIES,
    RELABEL,
    GoalSelectionStrategy,
)
from rlher.her.layout import ACHIEVED, GOAL


def validate_space(observation_space: spaces.Space) -> None:
    """Raise ValueError if the observation space has no goals, an empty goal, or a reserved key."""
    keys = dict(observation_space.spaces) if isinstance(observation_space, spaces.Dict) else {}
    missing = sorted({ACHIEVED, GOAL} - keys.keys())
    if missing:
        raise ValueError(f"the observation space has no {' and no '.join(missing)}; use a goal environment.")
    for key, space in keys.items():
        if key.startswith("_"):
            raise ValueError(f"the observation key {key!r} begins with an underscore; rename it.")
        if key in (ACHIEVED, GOAL) and 0 in (space.shape or ()):
            raise ValueError(f"{key} has the shape {space.shape}; a goal needs at least one entry.")
    achieved, desired = (np.prod(keys[key].shape or ()) for key in (ACHIEVED, GOAL))
    if achieved != desired:
        raise ValueError(f"{ACHIEVED} has {achieved:.0f} entries and {GOAL} {desired:.0f}; they must be comparable.")


def validate_integer(name: str, value: Any, low: int) -> None:
    """Raise ValueError unless the value is a whole number of at least ``low``."""
    try:
        valid = operator.index(value) >= low
    except TypeError:
        valid = False
    if not valid:
        raise ValueError(f"{name}={value!r} is invalid; use a whole number of at least {low}.")


def validate_fraction(name: str, value: float) -> None:
    """Raise ValueError unless the value lies in [0, 1]."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name}={value} is invalid; use a number from 0 to 1.")


def validate_share(name: str, value: float) -> None:
    """Raise ValueError unless the value lies between 0 and 1, both excluded."""
    if not 0 < value < 1:
        raise ValueError(f"{name}={value} is invalid; use a number above 0 and below 1.")


def validate_slots(
    shares: Sequence[float] | None, observation_space: spaces.Dict, strategy: GoalSelectionStrategy, n_steps: int
) -> None:
    """Raise ValueError for shares of goal slots that are not weights, or that are combined with a mix or n steps."""
    if shares is None:
        return
    if len(shares) < 2 or not all(share >= 0 for share in shares) or not sum(shares) > 0:
        raise ValueError(f"goal_slot_shares={shares!r} is invalid; give at least two weights, one of them above 0.")
    size = spaces.flatdim(observation_space[GOAL])
    if size % len(shares):
        raise ValueError(
            f"goal_slot_shares={shares!r} does not divide a goal of {size} entries; give a weight per slot."
        )
    if strategy is GoalSelectionStrategy.MIX or n_steps > 1:
        raise ValueError("goal_slot_shares (relay sub-goals) works with single steps and without the strategy mix.")


def validate_choices(relabel: str, priority: str, optimize_memory_usage: bool) -> None:
    """Raise ValueError for a name that does not exist, or SB3's option that cannot be used here."""
    if relabel not in RELABEL:
        raise ValueError(f"relabel={relabel!r} is unknown; use {' or '.join(RELABEL)}.")
    if priority not in PRIORITIES:
        raise ValueError(f"priority={priority!r} is unknown; use {', '.join(PRIORITIES)}.")
    if optimize_memory_usage:
        raise ValueError("optimize_memory_usage=True is not supported; each observation is stored once in any case.")


def validate_mix(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Return the weights of a mix as floats, the default ones for None.

    :raises ValueError: an unknown name, a mix within a mix, a negative weight, or no weight above 0.
    """
    weights = DEFAULT_MIX if weights is None else weights
    known = [*(key for key in KEY_TO_GOAL_STRATEGY if key != GoalSelectionStrategy.MIX.value), ORIGINAL]
    for name, weight in weights.items():
        if name not in known:
            raise ValueError(f"goal_mix has the unknown strategy {name!r}; use {', '.join(known)}.")
        if not weight >= 0 or not np.isfinite(weight):
            raise ValueError(f"goal_mix has the weight {weight} for {name!r}; use a finite number of at least 0.")
    if not any(weights.values()):
        raise ValueError("goal_mix has no weight above 0; give one strategy a weight.")
    return {name: float(weight) for name, weight in weights.items()}


def warn_about_ignored(
    strategy: GoalSelectionStrategy,
    goal_mix: Mapping[str, float] | None,
    goal_gamma: float | None,
    relabel: str,
    relabel_done: str,
) -> None:
    """Warn about arguments that another argument overrides."""
    is_mix = strategy is GoalSelectionStrategy.MIX
    uses_gamma = strategy is GoalSelectionStrategy.GEOMETRIC or (is_mix and "geometric" in (goal_mix or {}))
    if goal_mix is not None and not is_mix:
        _warn(f'goal_mix has no effect with goal_selection_strategy="{strategy.value}"; use "mix".')
    if goal_gamma is not None and not uses_gamma:
        _warn(f'goal_gamma has no effect with goal_selection_strategy="{strategy.value}"; use "geometric".')
    if relabel == "sb3" and relabel_done not in ("auto", "keep"):
        _warn(f'relabel_done="{relabel_done}" has no effect with relabel="sb3", which keeps done as collected.')


def warn_about_old_arguments(online_sampling: bool | None, max_episode_length: int | None) -> None:
    """Warn about two arguments of older versions of SB3."""
    if online_sampling is not None:
        _warn("online_sampling has no effect: goals are always drawn when a batch is sampled.")
    if max_episode_length is not None:
        _warn("max_episode_length has no effect: episodes of any length are stored.")


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=4)
