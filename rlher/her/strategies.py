"""Goal selection strategies: which goal replaces the desired one of a virtual transition.

A strategy is a function from a :class:`GoalRequest` to ids of transitions (:mod:`rlher.her.storage`): the new goal is
the one achieved after that transition. The transitions of an episode have consecutive ids, so ``request.transitions``
stand for the goals that the transitions achieved, and ``request.last_ids`` for the last goals of their episodes.
Offsets are drawn by flooring, never by rounding: rounding gives the two end points half their weight (a bug of mrl and
tianshou).

To use another strategy, pass a function to ``HerReplayBuffer(goal_selection_strategy=…)``::

    def next_achieved(request):
        return np.minimum(request.transitions + 1, request.last_ids)

To give it a name, add it here and to :data:`STRATEGIES`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.core.errors import RunError, as_run_error, describe_value
from rlher.core.user_code import bind_arguments, import_object
from rlher.her.storage import Ids

KEEP = -1
"""In place of an id: keep the goal that the transition was collected with."""

DESIRED = -2
"""``DESIRED - id`` in place of an id: the goal desired in that transition, not the one achieved after it.

The same subtraction gives the id back.
"""

ORIGINAL = "original"
"""Name under which a mix keeps the goal as collected."""

DEFAULT_MIX = {"future": 0.6, "episode": 0.1, "random": 0.1, ORIGINAL: 0.2}
"""Weights of the strategy ``mix``, where none are given."""


@dataclass(slots=True)
class GoalRequest:
    """Input of a strategy: n transitions that need a new goal.

    :param transitions: (n,) ids of the transitions.
    :param first_ids: (n,) id of the first transition of each one's episode.
    :param last_ids: (n,) id of the last transition of the episode, or of the latest so far while it runs.
    :param rng: the buffer's generator.
    :param sample_transitions: returns the given number of ids, sampled uniformly from all stored transitions.
    :param achieved_goals: returns the goals (m, …) that were achieved after the transitions with these (m,) ids.
    :param is_stored: returns (m,) whether these (m,) numbers are ids of stored transitions.
    :param gamma: discount of the geometric strategy, in [0, 1].
    :param mix: strategies of a mix with their weights; None in place of a strategy keeps the goal as collected.
    """

    transitions: Ids
    first_ids: Ids
    last_ids: Ids
    rng: np.random.Generator
    sample_transitions: Callable[[int], Ids]
    achieved_goals: Callable[[Ids], NDArray]
    is_stored: Callable[[Ids], NDArray[np.bool_]]
    gamma: float = 0.95
    mix: "Sequence[tuple[Strategy | None, float]]" = ()

    def __len__(self) -> int:
        return len(self.transitions)


Strategy = Callable[[GoalRequest], Ids]


def future(request: GoalRequest) -> Ids:
    """Sample uniformly from the goals that the episode achieved from this transition on, its own included.

    Inclusive as in SB3, so that one-step episodes are relabelled too (stable-baselines #578) and the last achieved
    state is reachable (stable-baselines #666).
    """
    left = request.last_ids - request.transitions + 1
    return request.last_ids - (request.rng.random(len(request)) * left).astype(np.int64)


def final(request: GoalRequest) -> Ids:
    """Return the last goal that the episode achieved."""
    return request.last_ids


def episode(request: GoalRequest) -> Ids:
    """Sample uniformly from all goals that the episode achieved, before or after this transition."""
    length = request.last_ids - request.first_ids + 1
    return request.last_ids - (request.rng.random(len(request)) * length).astype(np.int64)


def random(request: GoalRequest) -> Ids:
    """Sample uniformly from the achieved goals of all stored transitions."""
    return request.sample_transitions(len(request))


def geometric(request: GoalRequest) -> Ids:
    """Sample from the discounted future: offset k ≥ 0 with probability ∝ γ^k, truncated at the episode's end.

    That is the discounted future-state distribution of contrastive RL (arXiv:2206.07568). OGBench assigns the
    probability beyond the end to the last state; here the truncated distribution is normalised again, so that no
    single state is favoured.
    """
    left = request.last_ids - request.transitions + 1
    if request.gamma == 0:  # the limit: the goal that the transition achieved
        return request.transitions
    if request.gamma == 1:  # the limit: every later goal alike
        return future(request)
    reached = 1.0 - request.rng.random(len(left)) * (1.0 - request.gamma**left)
    offset = np.ceil(np.log(reached) / np.log(request.gamma)).astype(np.int64)
    return request.transitions + np.clip(offset, 1, left) - 1


def desired(request: GoalRequest) -> Ids:
    """Sample uniformly from the desired goals of all stored transitions, mrl's "actual" goals.

    The other strategies only sample goals that were achieved, which in some tasks lie elsewhere than the desired ones.
    In a mix with ``future`` these goals are examples of failure; alone they are hardly ever reached.
    """
    return DESIRED - request.sample_transitions(len(request))


def mix(request: GoalRequest) -> Ids:
    """Sample a strategy for each transition by weight, then a goal by that strategy.

    mrl's "rfaab" mixes and OGBench's value goals are mixes of this kind.
    """
    share = np.cumsum([weight for _, weight in request.mix])
    chosen = np.searchsorted(share / share[-1], request.rng.random(len(request)), side="right")
    goals = np.full(len(request), KEEP, dtype=np.int64)
    for number, (strategy, _) in enumerate(request.mix):
        where = np.flatnonzero(chosen == number)
        if strategy is not None and where.size:
            ids = {name: getattr(request, name)[where] for name in ("transitions", "first_ids", "last_ids")}
            goals[where] = strategy(replace(request, **ids))
    return goals


STRATEGIES: dict[str, Strategy] = {
    each.__name__: each for each in (future, final, episode, random, geometric, desired, mix)
}
"""Functions by the value of ``goal_selection_strategy`` (section 4.5 of the HER paper, arXiv:1707.01495)."""


def strategy_of(
    name: str | Enum | Strategy, kwargs: Mapping[str, Any] | None = None, key: str = "her.goal_selection_strategy"
) -> Strategy:
    """Return a strategy.

    :param name: of :data:`STRATEGIES`, a member of SB3's enum, a function or callable class, or its ``module:name``.
    :param kwargs: keyword arguments of the user's function or class.
    :param key: config key that names it, for messages.
    :raises ValueError: no such strategy.
    :raises UserError: the user's own cannot be imported, or does not take the arguments.
    """
    if callable(name) or (isinstance(name, str) and ":" in name):
        own = name if callable(name) else import_object(key, name)
        return partial(
            _call_user_strategy, bind_arguments(key, own, kwargs or {}), getattr(own, "__name__", type(own).__name__)
        )
    known = (name.name if isinstance(name, Enum) else str(name)).lower()
    if known not in STRATEGIES:
        raise ValueError(f"{key}={name!r} is unknown; use {', '.join(STRATEGIES)}.")
    return STRATEGIES[known]


def _call_user_strategy(strategy: Strategy, name: str, request: GoalRequest) -> Ids:
    """Return the choice of a strategy of the user's own.

    :raises RunError: it raised, or returned something else than ids of stored transitions.
    """
    try:
        returned = strategy(request)
        chosen = np.asarray(returned)
    except Exception as error:
        raise as_run_error(error, f"the goal selection strategy {name}") from error
    what = describe_value(returned)
    if chosen.shape == (len(request),) and chosen.dtype.kind == "i":
        ids = np.where(chosen <= DESIRED, DESIRED - chosen, chosen)
        is_valid = request.is_stored(ids) | (chosen == KEEP)
        if is_valid.all():
            return chosen
        what = f"ids of transitions that are not stored, such as {chosen[~is_valid][0]}"
    raise RunError(
        f"the goal selection strategy {name} returned {what}; it must return one id of a stored transition for each of "
        f"the {len(request)} requested goals. Those of an episode are from request.first_ids to request.last_ids."
    )


def mix_of(
    weights: Mapping[str | Strategy, float] | None, kwargs: Mapping[str, Any] | None = None
) -> list[tuple[Strategy | None, float]]:
    """Return the strategies of a mix with their weights, by default those of :data:`DEFAULT_MIX`.

    :param weights: by the name of a strategy, a function, or ``module:name``; that of ``"original"`` is for the goal as
        collected.
    :param kwargs: keyword arguments of the user's own strategies.
    :raises ValueError: an unknown name, a mix within a mix, a negative weight, or no weight above 0.
    """
    parts: Mapping[Any, float] = DEFAULT_MIX if weights is None else weights
    if "mix" in parts or not all(0 <= weight < np.inf for weight in parts.values()) or not any(parts.values()):
        raise ValueError(f"goal_mix={parts} is invalid; use finite weights of at least 0, one above 0, without mix.")
    return [
        (None if name == ORIGINAL else strategy_of(name, kwargs, "her.goal_mix"), weight)
        for name, weight in parts.items()
    ]
