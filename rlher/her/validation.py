"""Checks of the buffer's constructor arguments, and warnings about arguments without effect."""

import inspect
import operator
import re
import reprlib
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral, Real
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
from rlher.her.strategies import strategy_of

KINDS: dict[Any, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: (Integral,),
    float: (Real,),
    Sequence: (Sequence, np.ndarray),
}
"""Types of the values that an annotation allows, where they are not the annotation itself."""


def validate_types(function: Callable, given: Mapping[str, Any]) -> None:
    """Raise TypeError, with the argument's name, for a value that does not fit the function's annotation."""
    for name, hint in typing.get_type_hints(function).items():
        if name in given and not _fits(given[name], hint):
            wanted = re.sub(r"\w+\.", "", inspect.formatannotation(hint))
            raise TypeError(
                f"{name}={reprlib.repr(given[name])} is of type {type(given[name]).__name__}; use {wanted}."
            )


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    kind = origin or hint
    if kind is Any or isinstance(value, bool):  # which Python counts as an integer
        return kind in (Any, bool)
    if not isinstance(value, KINDS.get(kind, kind)) or (kind is Sequence and isinstance(value, str)):
        return False
    if kind is Mapping:
        return all(_fits(key, parts[0]) and _fits(entry, parts[1]) for key, entry in value.items())
    return all(_fits(entry, parts[0]) for entry in value) if kind is Sequence else True


def validate_arguments(given: Mapping[str, Any]) -> None:
    """Raise ValueError for an argument of the buffer that is out of its range; warn about those without effect."""
    for name, low in (("buffer_size", 1), ("n_envs", 1), ("n_sampled_goal", 0), ("n_steps", 1)):
        validate_integer(name, given[name], low)
    if given["seed"] is not None:
        validate_integer("seed", given["seed"], 0)
    for name in ("gamma", "goal_gamma"):
        if given[name] is not None and not 0 <= given[name] <= 1:
            raise ValueError(f"{name}={given[name]} is invalid; use a number from 0 to 1.")
    if not 0 < given["demonstration_fraction"] < 1:
        fraction = given["demonstration_fraction"]
        raise ValueError(f"demonstration_fraction={fraction} is invalid; use a number above 0 and below 1.")
    distance = given["static_distance"]
    if distance is not None and not 0 <= distance < np.inf:
        raise ValueError(f"static_distance={distance} is invalid; use a finite number of at least 0, or None.")
    if distance is not None and given["goal_slot_shares"] is not None:
        raise ValueError(
            "static_distance has no meaning with goal_slot_shares (relay sub-goals): the hand always moves."
        )
    for name, choices in (("relabel", RELABEL), ("priority", tuple(PRIORITIES))):
        if given[name] not in choices:
            raise ValueError(f"{name}={given[name]!r} is unknown; use {', '.join(choices)}.")
    if given["optimize_memory_usage"]:
        raise ValueError("optimize_memory_usage=True is not supported; each observation is stored once in any case.")
    strategy = strategy_of(given["goal_selection_strategy"])
    _validate_slots(given["goal_slot_shares"], given["observation_space"], strategy, given["n_steps"])
    for message in _arguments_without_effect(strategy, given):
        warnings.warn(message, stacklevel=3)


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


def _validate_slots(
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


def _arguments_without_effect(strategy: GoalSelectionStrategy, given: Mapping[str, Any]) -> Iterator[str]:
    """Return a warning for each argument that has no effect, or another one than its value."""
    mix, relabel_done = given["goal_mix"], given["relabel_done"]
    is_mix = strategy is GoalSelectionStrategy.MIX
    uses_gamma = strategy is GoalSelectionStrategy.GEOMETRIC or (is_mix and "geometric" in (mix or {}))
    if mix is not None and not is_mix:
        yield f'goal_mix has no effect with goal_selection_strategy="{strategy.value}"; use "mix".'
    if given["goal_gamma"] is not None and not uses_gamma:
        yield f'goal_gamma has no effect with goal_selection_strategy="{strategy.value}"; use "geometric".'
    if given["relabel"] == "sb3" and relabel_done not in ("auto", "keep"):
        yield f'relabel_done="{relabel_done}" has no effect with relabel="sb3", which keeps done as collected.'
    size, n_envs = given["buffer_size"], given["n_envs"]
    if size < n_envs:
        yield f"buffer_size={size} is less than n_envs={n_envs}; {n_envs} transitions are stored, one per environment."
    if given["online_sampling"] is not None:
        yield "online_sampling has no effect: goals are always drawn when a batch is sampled."
    if given["max_episode_length"] is not None:
        yield "max_episode_length has no effect: episodes of any length are stored."
