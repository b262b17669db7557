"""Goal selection strategies: which goal replaces the desired one of a virtual transition.

A strategy is a function from a :class:`GoalRequest` to :data:`GoalIds`. A transition's id (see
:mod:`rlher.her.storage`) stands for the goal that was achieved after it. So ``request.ids`` stand for the goals that
the transitions themselves achieved, and ``request.episode_last_ids`` for the last goals of their episodes. The
transitions of an episode have consecutive ids. To choose the desired goal of a transition, return
:func:`desired_goal_of` its id.

Offsets are drawn by flooring. Rounding would give the two end points half their weight (a bug of mrl and tianshou).

To use another strategy, pass a function to ``HerReplayBuffer(goal_selection_strategy=…)``::

    def next_achieved(request):
        return np.minimum(request.ids + 1, request.episode_last_ids)

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
from rlher.her.storage import DESIRED_GOAL, Ids, Storage, to_ids

GoalIds = NDArray[np.int64]
"""(n,) goals: i is the goal achieved after transition i, and -1 - i the desired goal of transition i."""

ORIGINAL = "original"
"""Name of :func:`original` in a mix."""

DEFAULT_MIX = {"future": 0.6, "episode": 0.1, "random": 0.1, ORIGINAL: 0.2}
"""Default weights of the strategy ``mix``."""


@dataclass
class GoalRequest:
    """Input of a strategy: n transitions that need a new goal.

    :param ids: (n,) ids of the transitions.
    :param episodes: (n,) numbers of their episodes.
    :param storage: all stored transitions.
    :param rng: the buffer's generator.
    """

    ids: Ids
    episodes: NDArray[np.integer]
    storage: Storage
    rng: np.random.Generator

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def episode_first_ids(self) -> Ids:
        """The (n,) ids of the first stored transitions of the episodes."""
        return self.storage.episode_first_id.take(self.episodes)

    @property
    def episode_last_ids(self) -> Ids:
        """The (n,) ids of the last transitions of the episodes; of a running episode, its newest transition."""
        return self.storage.episode_last_id.take(self.episodes)

    def sample_transitions(self, count: int) -> Ids:
        """Return ids sampled uniformly from all stored transitions."""
        return self.storage.sample(count, self.rng)

    def achieved_goals(self, ids: Ids) -> NDArray:
        """Return the goals (m, …) that were achieved after the transitions with these (m,) ids."""
        return self.storage.next_achieved[self.storage.positions(ids)]


def desired_goal_of(ids: Ids) -> GoalIds:
    """Return the :data:`GoalIds` of the desired goals of transitions with these (n,) ids."""
    return -1 - ids


def transitions_of(goal_ids: GoalIds) -> Ids:
    """Return the (n,) ids of the transitions that achieved or desired these goals."""
    return np.where(goal_ids < 0, -1 - goal_ids, goal_ids)


Strategy = Callable[[GoalRequest], GoalIds]
Mix = Sequence[tuple[Strategy, float]]
"""Strategies with their weights."""


def future(request: GoalRequest) -> GoalIds:
    """Sample uniformly from the goals achieved after this transition and the later ones of its episode.

    As in SB3, this transition is included. So one-step episodes can be relabelled (stable-baselines #578), and the last
    achieved goal can be chosen (stable-baselines #666).
    """
    last_ids = request.episode_last_ids
    steps_left = last_ids - request.ids + 1
    return last_ids - (request.rng.random(len(request)) * steps_left).astype(np.int64)


def final(request: GoalRequest) -> GoalIds:
    """Return the last goal that the episode achieved."""
    return request.episode_last_ids


def episode(request: GoalRequest) -> GoalIds:
    """Sample uniformly from all goals that the episode achieved, before or after this transition."""
    last_ids = request.episode_last_ids
    length = last_ids - request.episode_first_ids + 1
    return last_ids - (request.rng.random(len(request)) * length).astype(np.int64)


def random(request: GoalRequest) -> GoalIds:
    """Sample uniformly from the achieved goals of all stored transitions."""
    return request.sample_transitions(len(request))


def geometric(request: GoalRequest, gamma: float) -> GoalIds:
    """Sample from the discounted future: offset k ≥ 0 with probability ∝ γ^k, truncated at the episode's end.

    This is the discounted future-state distribution of contrastive RL (arXiv:2206.07568). OGBench assigns the
    probability beyond the end to the last state. Here the truncated distribution is normalised again, so that no
    single state is favoured.

    :param gamma: the discount γ, in [0, 1].
    """
    if gamma == 0:  # the limit: the goal that the transition achieved
        return request.ids
    if gamma == 1:  # the limit: every later goal alike
        return future(request)
    steps_left = request.episode_last_ids - request.ids + 1
    survival = 1.0 - request.rng.random(len(request)) * (1.0 - gamma**steps_left)
    offset = np.ceil(np.log(survival) / np.log(gamma)).astype(np.int64)
    return request.ids + np.clip(offset, 1, steps_left) - 1


def desired(request: GoalRequest) -> GoalIds:
    """Sample uniformly from the desired goals of all stored transitions, mrl's "actual" goals.

    The other strategies sample achieved goals only. In some tasks these lie elsewhere than the desired goals. In a mix
    with ``future``, sampled desired goals are examples of failure. Alone, they are hardly ever reached.
    """
    return desired_goal_of(request.sample_transitions(len(request)))


def original(request: GoalRequest) -> GoalIds:
    """Return the desired goals with which the transitions were collected; a part of a mix."""
    return desired_goal_of(request.ids)


def mix(request: GoalRequest, strategies: Mix, start: int = 0) -> GoalIds:
    """Sample a strategy for each transition by weight, then a goal by that strategy.

    mrl's "rfaab" mixes and OGBench's value goals are mixes of this kind.

    :param start: number of stored transitions at which the mix begins; until then, sample as :func:`future`. mrl starts
        FetchSlide's mix at 25,000.
    """
    if request.storage.n_transitions < start:
        return future(request)
    limits = np.cumsum([weight for _, weight in strategies])
    indices = np.searchsorted(limits / limits[-1], request.rng.random(len(request)), side="right")
    goal_ids = np.empty(len(request), np.int64)
    for index, (strategy, _) in enumerate(strategies):
        rows = np.flatnonzero(indices == index)
        if rows.size:
            goal_ids[rows] = strategy(replace(request, ids=request.ids[rows], episodes=request.episodes[rows]))
    return goal_ids


STRATEGIES: dict[str, Callable[..., GoalIds]] = {
    function.__name__: function for function in (future, final, episode, random, geometric, desired, mix)
}
"""Functions by the value of ``goal_selection_strategy`` (section 4.5 of the HER paper, arXiv:1707.01495)."""


def resolve_strategy(
    name: str | Enum | Strategy,
    gamma: float,
    kwargs: Mapping[str, Any] | None = None,
    *,
    mix_weights: Mapping[str | Strategy, float] | None = None,
    mix_start: int = 0,
) -> Strategy:
    """Return a strategy, with its arguments bound.

    :param name: a name of :data:`STRATEGIES`, a member of SB3's enum, a function or callable class, or its
        ``module:name``.
    :param gamma: discount of :func:`geometric`.
    :param kwargs: keyword arguments of the user's functions and classes, also in a mix.
    :param mix_weights: weights of :func:`mix` by the name of a strategy, a function, or ``module:name``;
        ``"original"`` is :func:`original`. If None or empty, :data:`DEFAULT_MIX`.
    :param mix_start: the ``start`` of :func:`mix`.
    :raises ValueError: there is no such strategy, or a mix contains a mix, a negative weight, or no weight above 0.
    :raises UserError: the user's strategy cannot be imported, or does not take the arguments.
    """
    strategy = _resolve("goal_selection_strategy", name, gamma, kwargs)
    if strategy is not mix:
        return strategy
    weights: Mapping[Any, float] = mix_weights or DEFAULT_MIX
    parts = [original if part == ORIGINAL else _resolve("goal_mix", part, gamma, kwargs) for part in weights]
    strategies = list(zip(parts, weights.values(), strict=True))
    is_finite = all(0 <= weight < np.inf for weight in weights.values())
    if mix in parts or not is_finite or not any(weights.values()):
        raise ValueError(f"goal_mix={weights} is invalid; use finite weights of at least 0, one above 0, without mix.")
    return partial(mix, strategies=strategies, start=mix_start)


def _resolve(
    argument: str, name: str | Enum | Strategy, gamma: float, kwargs: Mapping[str, Any] | None
) -> Callable[..., GoalIds]:
    """Return a strategy with its arguments bound; the arguments of :func:`mix` stay unbound.

    :param argument: name of the buffer's argument, for messages.
    """
    if callable(name) or (isinstance(name, str) and ":" in name):
        user_strategy = name if callable(name) else import_object(argument, name)
        bound = bind_arguments(argument, user_strategy, kwargs or {})
        shown_name = getattr(user_strategy, "__name__", type(user_strategy).__name__)
        return partial(_call_user_strategy, bound, shown_name)
    text = (name.name if isinstance(name, Enum) else str(name)).lower()
    if text not in STRATEGIES:
        raise ValueError(f"{argument}={name!r} is unknown; use {', '.join(STRATEGIES)}.")
    return partial(geometric, gamma=gamma) if text == "geometric" else STRATEGIES[text]


def _call_user_strategy(strategy: Strategy, name: str, request: GoalRequest) -> GoalIds:
    """Call a user's strategy and return its goals.

    :raises RunError: the strategy raised, or did not return ids of stored transitions.
    """
    with as_run_error(f"the goal selection strategy {name}"):
        returned = strategy(request)
        goal_ids = to_ids(returned, len(request))
    if goal_ids is not None and request.storage.is_stored(transitions_of(goal_ids)).all():
        return goal_ids
    raise RunError(
        f"the goal selection strategy {name} returned {describe_value(returned)}; it must return one id of a stored "
        f"transition for each of the {len(request)} requested goals. Those of an episode are from "
        "request.episode_first_ids to request.episode_last_ids."
    )


def sample_goals(strategy: Strategy, request: GoalRequest) -> NDArray:
    """Return the new goals (n, …) of the requested transitions.

    Goals keep the environment's precision, because a reward may depend on it; stored observations may be float32.
    """
    storage = request.storage
    if not len(request):
        return storage.next_achieved[:0]
    goal_ids = strategy(request)
    positions = storage.positions(transitions_of(goal_ids))
    goals = storage.next_achieved.take(positions, axis=0)
    if storage.layout.goal_parts > 1:
        goals = keep_one_part(goals, storage.layout.goal_parts, request.rng)
    is_desired = goal_ids < 0
    if is_desired.any():  # desired goals have a single part already
        goals[is_desired] = storage.rows["obs"][DESIRED_GOAL][positions[is_desired]]
    return goals


def keep_one_part(goals: NDArray, parts: int, rng: np.random.Generator) -> NDArray:
    """Return goals in which one random part is kept and the other parts are zero.

    Goals have several parts with relay sub-goals (``rlher.envs.relay``), where the agent pursues one part at a time.

    :param goals: (n, parts × size).
    """
    count = len(goals)
    kept_part = (rng.random(count) * parts).astype(np.int64)
    is_kept = np.arange(parts) == kept_part[:, None]
    return np.where(is_kept[:, :, None], goals.reshape(count, parts, -1), 0).reshape(goals.shape)
