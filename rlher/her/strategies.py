"""Goal selection strategies: which goal replaces the desired one of a virtual transition.

A strategy is a function that returns a goal for each transition of a :class:`GoalRequest`. Most strategies choose
transitions by their ids (see :mod:`rlher.her.storage`), and return the goals that these transitions achieved. The
transitions of an episode have consecutive ids.

Offsets are drawn by flooring. Rounding would give the two end points half their weight (a bug of mrl and tianshou).

To use another strategy, pass a function to ``HerReplayBuffer(goal_selection_strategy=…)``::

    def next_achieved(request):
        return request.achieved_goals(np.minimum(request.ids + 1, request.episode_last_ids))

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
from rlher.core.user_code import bind_arguments, resolve_object
from rlher.her.storage import DESIRED_GOAL, Ids, Positions, Storage

Goals = NDArray[Any]
"""(n, …) goals at the environment's precision, because a reward may depend on it."""

DEFAULT_MIX = {"future": 0.6, "episode": 0.1, "random": 0.1, "original": 0.2}
"""Default weights of the strategy ``mix``."""


@dataclass
class GoalRequest:
    """Input of a strategy: n transitions that need a virtual goal.

    :param ids: (n,) ids of the transitions.
    :param episodes: (n,) their episodes, see :mod:`rlher.her.storage`.
    :param storage: all stored transitions.
    :param rng: the buffer's generator.
    :param gamma: the buffer's discount.
    """

    ids: Ids
    episodes: NDArray[np.integer]
    storage: Storage
    rng: np.random.Generator
    gamma: float

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

    def empty_goals(self) -> Goals:
        """Return an array for the n goals, with arbitrary content."""
        next_achieved_goals = self.storage.next_achieved_goals
        return np.empty((len(self), *next_achieved_goals.shape[1:]), next_achieved_goals.dtype)

    def achieved_goals(self, ids: Ids) -> Goals:
        """Return the goals (m, …) that were achieved after the transitions with these (m,) ids.

        If goals have several parts, one random part of each goal is kept, see :func:`keep_one_part`.

        :raises IndexError: an id belongs to no stored transition; for a user's strategy.
        """
        goals = self.storage.next_achieved_goals.take(self._positions(ids), axis=0)
        parts = self.storage.layout.goal_parts
        return keep_one_part(goals, parts, self.rng) if parts > 1 else goals

    def desired_goals(self, ids: Ids) -> Goals:
        """Return the desired goals (m, …) of the transitions with these (m,) ids.

        :raises IndexError: an id belongs to no stored transition; for a user's strategy.
        """
        goals: Goals = self.storage.rows["obs"][DESIRED_GOAL][self._positions(ids)]
        return goals.astype(self.storage.next_achieved_goals.dtype)

    def _positions(self, ids: Ids) -> Positions:
        return self.storage.positions(ids)


class CheckedGoalRequest(GoalRequest):
    """Input of a user's strategy. The ids that it gives are checked, which takes a tenth of a batch's time."""

    def _positions(self, ids: Ids) -> Positions:
        if not (is_stored := self.storage.is_stored(ids)).all():
            raise IndexError(f"ids of no stored transitions: {ids[~is_stored][:3]}")
        return super()._positions(ids)


Strategy = Callable[[GoalRequest], Goals]
Mix = Sequence[tuple[Strategy, float]]
"""Strategies with their weights."""


def future(request: GoalRequest) -> Goals:
    """Sample uniformly from the goals achieved after this transition and the later ones of its episode.

    As in SB3, this transition is included. So one-step episodes can be relabelled (stable-baselines #578), and the last
    achieved goal can be chosen (stable-baselines #666).
    """
    last_ids = request.episode_last_ids
    steps_left = last_ids - request.ids + 1
    return request.achieved_goals(last_ids - (request.rng.random(len(request)) * steps_left).astype(np.int64))


def final(request: GoalRequest) -> Goals:
    """Return the last goal that the episode achieved."""
    return request.achieved_goals(request.episode_last_ids)


def episode(request: GoalRequest) -> Goals:
    """Sample uniformly from all goals that the episode achieved, before or after this transition."""
    last_ids = request.episode_last_ids
    length = last_ids - request.episode_first_ids + 1
    return request.achieved_goals(last_ids - (request.rng.random(len(request)) * length).astype(np.int64))


def random(request: GoalRequest) -> Goals:
    """Sample uniformly from the achieved goals of all stored transitions."""
    return request.achieved_goals(request.sample_transitions(len(request)))


def geometric(request: GoalRequest) -> Goals:
    """Sample from the discounted future: offset k ≥ 0 with probability ∝ γ^k, truncated at the episode's end.

    This is the discounted future-state distribution of contrastive RL (arXiv:2206.07568). OGBench assigns the
    probability beyond the end to the last state. Here the truncated distribution is normalised again, so that no
    single state is favoured.
    """
    gamma = request.gamma
    if gamma == 0:  # the limit: the goal that the transition achieved
        return request.achieved_goals(request.ids)
    if gamma == 1:  # the limit: every later goal alike
        return future(request)
    steps_left = request.episode_last_ids - request.ids + 1
    survival = 1.0 - request.rng.random(len(request)) * (1.0 - gamma**steps_left)
    offset = np.ceil(np.log(survival) / np.log(gamma)).astype(np.int64)
    return request.achieved_goals(request.ids + np.clip(offset, 1, steps_left) - 1)


def desired(request: GoalRequest) -> Goals:
    """Sample uniformly from the desired goals of all stored transitions, mrl's "actual" goals.

    The other strategies sample achieved goals only. In some tasks these lie elsewhere than the desired goals. In a mix
    with ``future``, sampled desired goals are examples of failure. Alone, they are hardly ever reached.
    """
    return request.desired_goals(request.sample_transitions(len(request)))


def original(request: GoalRequest) -> Goals:
    """Return the desired goals with which the transitions were collected; for use in a mix."""
    return request.desired_goals(request.ids)


def mix(request: GoalRequest, strategies: Mix, start: int = 0) -> Goals:
    """Sample a strategy for each transition by weight, then a goal by that strategy.

    mrl's "rfaab" mixes and OGBench's value goals are mixes of this kind.

    :param start: number of stored transitions at which the mix begins; until then, sample as :func:`future`. mrl starts
        FetchSlide's mix at 25,000.
    """
    if request.storage.n_transitions < start:
        return future(request)
    limits = np.cumsum([weight for _, weight in strategies])
    indices = np.searchsorted(limits / limits[-1], request.rng.random(len(request)), side="right")
    goals = request.empty_goals()
    for index, (strategy, _) in enumerate(strategies):
        rows = np.flatnonzero(indices == index)
        if rows.size:
            goals[rows] = strategy(replace(request, ids=request.ids[rows], episodes=request.episodes[rows]))
    return goals


STRATEGIES: dict[str, Callable[..., Goals]] = {
    function.__name__: function for function in (future, final, episode, random, geometric, desired, original, mix)
}
"""Functions by the value of ``goal_selection_strategy`` (section 4.5 of the HER paper, arXiv:1707.01495)."""


def resolve_strategy(
    name: str | Enum | Strategy,
    kwargs: Mapping[str, Any] | None = None,
    *,
    mix_weights: Mapping[str | Strategy, float] | None = None,
    mix_start: int = 0,
) -> Strategy:
    """Return a strategy, with its arguments bound.

    :param name: a name of :data:`STRATEGIES`, a member of SB3's enum, a function or callable class, or its
        ``module:name``.
    :param kwargs: keyword arguments of the user's functions and classes, also in a mix.
    :param mix_weights: weights of :func:`mix` by the name of a strategy, a function, or ``module:name``. If None or
        empty, :data:`DEFAULT_MIX`.
    :param mix_start: the ``start`` of :func:`mix`.
    :raises ValueError: there is no such strategy, or a mix contains a mix, a negative weight, or no weight above 0.
    :raises UserError: the user's strategy cannot be imported, or does not take the arguments.
    """
    strategy = _resolve("goal_selection_strategy", name, kwargs)
    if strategy is not mix:
        return strategy
    weights: Mapping[Any, float] = mix_weights or DEFAULT_MIX
    parts = [_resolve("goal_mix", part, kwargs) for part in weights]
    strategies = list(zip(parts, weights.values(), strict=True))
    is_finite = all(0 <= weight < np.inf for weight in weights.values())
    if mix in parts or not is_finite or not any(weights.values()):
        raise ValueError(f"goal_mix={weights} is invalid; use finite weights of at least 0, one above 0, without mix.")
    return partial(mix, strategies=strategies, start=mix_start)


def _resolve(argument: str, name: str | Enum | Strategy, kwargs: Mapping[str, Any] | None) -> Callable[..., Goals]:
    """Return a strategy with its arguments bound; the arguments of :func:`mix` stay unbound.

    :param argument: name of the buffer's argument, for messages.
    """
    strategy = resolve_object(argument, name.name.lower() if isinstance(name, Enum) else name, STRATEGIES)
    if strategy in STRATEGIES.values():
        return strategy
    bound = bind_arguments(argument, strategy, kwargs or {})
    return partial(_call_user_strategy, bound, getattr(strategy, "__name__", type(strategy).__name__))


def _call_user_strategy(strategy: Strategy, name: str, request: GoalRequest) -> Goals:
    """Call a user's strategy and return its goals.

    :raises RunError: the strategy raised, or did not return a finite goal for each transition.
    """
    expected = request.empty_goals()
    with as_run_error(f"the goal selection strategy {name}"):
        returned = strategy(CheckedGoalRequest(**vars(request)))
        goals = np.asarray(returned, expected.dtype)
    if goals.shape == expected.shape and np.isfinite(goals).all():
        return goals
    raise RunError(
        f"the goal selection strategy {name} returned {describe_value(returned)}; it must return an array of "
        f"shape {expected.shape} of finite numbers, a goal for each transition, such as request.achieved_goals(ids)."
    )


def keep_one_part(goals: NDArray, parts: int, rng: np.random.Generator) -> NDArray:
    """Return goals in which one random part is kept and the other parts are zero.

    Goals have several parts with relay sub-goals (``rlher.envs.relay``), where the agent pursues one part at a time.

    :param goals: (n, parts × size).
    """
    count, size = len(goals), goals.shape[1] // parts
    kept_part = (rng.random(count) * parts).astype(np.int64)
    is_kept = np.arange(parts) == kept_part[:, None]
    return np.where(is_kept[:, :, None], goals.reshape(count, parts, size), 0).reshape(goals.shape)
