"""Reward and ``done`` of transitions under virtual goals.

SB3 computes the reward of a virtual transition from the goals alone, so it loses parking's crash penalty
(openai/baselines #720, HighwayEnv #473). rlher keeps the part of the reward that does not depend on the goal.

SB3 keeps the ``done`` of the original goal (stable-baselines3 #627). If episodes end on success, two kinds of targets
are then wrong: a transition that reaches its virtual goal bootstraps beyond the end, and a transition that reached its
original goal is terminal although it did not reach the virtual goal. rlher computes ``done`` for the virtual goal.

Both corrections need to know which reward means success, and whether success ends an episode. `rlher train` measures
this before a run (:mod:`rlher.envs.probe`), if random episodes show it. Otherwise, and with plain Stable-Baselines3,
the buffer finds it out from the stored transitions (:class:`RewardStatistics`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.reward_function import Floats, RewardFunction
from rlher.her.storage import DESIRED_GOAL, Ids, Positions, Storage

Bools = NDArray[np.bool_]

RELABEL_DONE = ("auto", "keep", "success")
"""Values of ``relabel_done``, see :class:`Relabeller`."""

REWARD_TOLERANCE = 1e-5
"""Rewards that differ by no more than this count as equal, because they are stored as float32. Relative above 1."""


@dataclass
class RewardStatistics:
    """Statistics of the stored transitions' rewards under their original goals; the fields are JSON values.

    :param steps_observed: of each environment, number of transitions that these statistics include.
    :param values: distinct values of ``compute_reward``. Two values mean a sparse reward, three a dense reward; no more
        values are recorded.
    :param reward_at_goal: the least reward of a goal that is achieved exactly; None before the first is observed.
    :param ended_at_goal: transitions that reached their goal and ended the episode.
    :param went_on_at_goal: transitions that reached their goal and did not end the episode.
    """

    steps_observed: int = 0
    values: list[float] = field(default_factory=list)
    reward_at_goal: float | None = None
    ended_at_goal: int = 0
    went_on_at_goal: int = 0

    def record_reward_at_goal(self, rewards: Floats) -> None:
        """Record (n,) rewards of transitions whose desired goal equals the achieved goal."""
        self.reward_at_goal = float(np.min(rewards))
        self.record_rewards(rewards)

    def record_rewards(self, rewards: Floats) -> None:
        """Record the values of (n,) rewards."""
        if len(self.values) <= 2:
            self.values = sorted({*self.values, *np.unique(rewards)[:3].tolist()})

    def record_ends(self, reached: Bools, terminated: Bools) -> None:
        """Count how many of n transitions reached their goal and terminated, and how many reached it and went on."""
        self.ended_at_goal += int(np.sum(reached & terminated))
        self.went_on_at_goal += int(np.sum(reached & ~terminated))

    @property
    def sparse_values(self) -> list[float]:
        """The two values of a sparse reward, the lower first; empty while the reward is not known to be sparse."""
        return self.values if len(self.values) == 2 else []

    @property
    def inferred_success_reward(self) -> float | None:
        """The greater value of a sparse reward, if an exactly achieved goal has it; otherwise None."""
        reaches = bool(self.sparse_values) and self.reward_at_goal == self.sparse_values[-1]
        return self.reward_at_goal if reaches else None

    @property
    def inferred_ends_on_success(self) -> bool:
        """Whether most of the transitions that reached their goal were terminal."""
        return self.ended_at_goal > self.went_on_at_goal


@dataclass
class Relabeller:
    """Computes reward and ``done`` of transitions under virtual goals, using statistics of their original goals.

    :param storage: the stored transitions, none of which were observed.
    :param reward_function: ``compute_reward``, called only if needed.
    :param relabel_done: which transitions are ``done``, one of :data:`RELABEL_DONE`:

        - ``keep``: the same as under the original goal, as in SB3.
        - ``success``: those that reach the virtual goal, and those that were terminal without reaching the original
          goal, such as a crash.
        - ``auto``: ``success`` where episodes end on success, else ``keep``.
    :param keep_goal_independent_reward: whether the new reward contains the part that does not depend on the goal.
    :param ends_on_success: whether success terminates an episode. If None, it does if most of the stored transitions
        that reached their goal were terminal. Before the first such transition, ``auto`` means ``keep``.
    :param success_reward: ``compute_reward`` at or above which a goal counts as reached. If None, the greater value of
        a sparse reward; with a dense reward success is then unknown, and ``keep`` applies.
    :ivar statistics: statistics of the transitions that were observed already.
    :raises ValueError: unknown ``relabel_done``, or ``success_reward`` is not finite.
    """

    storage: Storage
    reward_function: RewardFunction
    relabel_done: str = "auto"
    keep_goal_independent_reward: bool = True
    ends_on_success: bool | None = None
    success_reward: float | None = None
    statistics: RewardStatistics = field(default_factory=RewardStatistics)

    def __post_init__(self) -> None:
        if self.relabel_done not in RELABEL_DONE:
            raise ValueError(f"relabel_done={self.relabel_done!r} is unknown; use {', '.join(RELABEL_DONE)}.")
        if self.success_reward is not None and not np.isfinite(self.success_reward):
            raise ValueError(f"success_reward={self.success_reward} is not finite; use a number or None.")

    # ------------------------------------------------------------------------- rewards under original goals

    def observe_new_transitions(self) -> None:
        """Add the transitions stored since the last call to the statistics, and split their rewards.

        The goal-independent part of each reward is written into the storage. Afterwards a batch calls
        ``compute_reward`` for its virtual goals only.
        """
        storage, steps_observed = self.storage, self.statistics.steps_observed
        if steps_observed == storage.steps_added:  # nothing is new; the environment's own reward is NaN
            return
        new_ids = storage.ids_since(steps_observed) if steps_observed > 0 else storage.all_ids()
        positions = storage.positions(new_ids)
        rows = storage.rows_at(positions)
        # A stored reward is for the goal shown after the step; PointMaze may move the goal in a step.
        goal_rewards = self._goal_rewards(positions, storage.next_obs(new_ids, rows["episode"])[DESIRED_GOAL])
        if self.statistics.reward_at_goal is None:
            at_goal = self._goal_rewards(positions, storage.next_achieved_goals[positions])
            self.statistics.record_reward_at_goal(at_goal)
        self.statistics.record_rewards(goal_rewards)
        self.statistics.record_ends(self.is_reached(goal_rewards), rows["terminated"])
        storage.rows["goal_independent_reward"][positions] = goal_independent_rewards(
            rows["reward"], goal_rewards, self.statistics.sparse_values
        )
        self.statistics.steps_observed = storage.steps_added

    @property
    def _splits_rewards(self) -> bool:
        """Whether the statistics or the goal-independent rewards are used."""
        return self.keep_goal_independent_reward or self.relabel_done != "keep"

    # -------------------------------------------------------------------------- values resolved from statistics

    @property
    def resolved_success_reward(self) -> float | None:
        """The reward at or above which a goal counts as reached; None while this reward is unknown."""
        return self.statistics.inferred_success_reward if self.success_reward is None else self.success_reward

    @property
    def done_follows_goal(self) -> bool:
        """Whether ``done`` is set for the virtual goal, with ``auto`` resolved; False while success is unknown."""
        if self.relabel_done == "keep" or self.resolved_success_reward is None:
            return False
        inferred = self.statistics.inferred_ends_on_success
        return self.relabel_done == "success" or (inferred if self.ends_on_success is None else self.ends_on_success)

    # --------------------------------------------------------------------------- rewards under virtual goals

    def rewards_and_dones(
        self, positions: Positions, rows: NDArray, goals: NDArray, n_original: int
    ) -> tuple[Floats, Floats]:
        """Return the (n,) rewards and dones of transitions.

        :param positions: (n,) positions of the transitions in the storage.
        :param rows: (n,) copies of the transitions' packed rows. Rewards that are not split yet are split in them, too.
        :param goals: (n, …) goals of the transitions.
        :param n_original: number of transitions with original goals, which come first and keep their rewards and dones.
        """
        rewards, dones = rows["reward"].copy(), rows["terminated"].astype(np.float32)
        if n_original < len(goals):
            # Not for each new transition, which would take as long as sampling a batch, but when a batch has new ones.
            if self._splits_rewards and np.isnan(rows["goal_independent_reward"][n_original:]).any():
                self.observe_new_transitions()
                rows["goal_independent_reward"] = self.storage.rows_at(positions)["goal_independent_reward"]
            goal_rewards = self._goal_rewards(positions[n_original:], goals[n_original:])
            rewards[n_original:] = goal_rewards
            if self.keep_goal_independent_reward:
                rewards[n_original:] += rows["goal_independent_reward"][n_original:]
            dones[n_original:] = self.dones(goal_rewards, rows[n_original:])
        return rewards, dones

    def n_step_returns(
        self, ids: Ids, episodes: NDArray[np.integer], goals: NDArray, n_original: int, n_steps: int, gamma: float
    ) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Return (n,) discounted n-step returns, their dones, and the number of steps in each return.

        A return stops at the episode's newest transition, and at the first step that is done under its goal. With
        hindsight, off-policy n-step returns are biased (arXiv:2102.12962), so ``n_steps`` should be small.

        :param ids: (n,) ids of the first transitions of the returns.
        :param episodes: (n,) episodes of the transitions.
        :param goals, n_original: as in :meth:`rewards_and_dones`.
        :param gamma: discount.
        """
        step_ids = ids[:, None] + np.arange(n_steps)
        last_ids = self.storage.episode_last_id.take(episodes)[:, None]
        positions = self.storage.positions(np.minimum(step_ids, last_ids).reshape(-1))
        rows = self.storage.rows_at(positions)
        step_goals = goals.repeat(n_steps, axis=0)
        rewards, dones = self.rewards_and_dones(positions, rows, step_goals, n_original * n_steps)
        rewards, dones = rewards.reshape(step_ids.shape), dones.reshape(step_ids.shape)

        dones_before = np.cumsum(dones, axis=1) - dones
        is_summed = (step_ids <= last_ids) & (dones_before == 0)
        returns = (rewards * is_summed) @ gamma ** np.arange(n_steps)
        return returns.astype(np.float32), (dones * is_summed).max(axis=1), is_summed.sum(axis=1)

    def dones(self, goal_rewards: Floats, rows: NDArray) -> Bools:
        """Return (n,) ``done`` of transitions under virtual goals.

        :param goal_rewards: (n,) ``compute_reward`` under the virtual goals.
        :param rows: (n,) packed rows of the transitions.
        """
        if not self.done_follows_goal:
            return rows["terminated"]
        original_goal_rewards = rows["reward"] - rows["goal_independent_reward"]
        is_failure = rows["terminated"] & ~self.is_reached(original_goal_rewards)  # a crash ends under any goal
        return self.is_reached(goal_rewards) | is_failure

    def is_reached(self, goal_rewards: Floats) -> Bools:
        """Return (n,) whether these rewards mean that the goal is reached; all False while success is unknown."""
        if self.resolved_success_reward is None:
            return np.zeros(len(goal_rewards), dtype=bool)
        return is_success_reward(goal_rewards, self.resolved_success_reward)

    def _goal_rewards(self, positions: Positions, goals: NDArray) -> Floats:
        """Return (n,) ``compute_reward`` of the stored transitions at these positions, under these goals."""
        return self.reward_function(self.storage.next_achieved_goals.take(positions, axis=0), goals)


def is_success_reward(goal_rewards: Any, success_reward: float) -> Bools:
    """Return whether rewards are at least ``success_reward``, apart from rounding."""
    return np.asarray(goal_rewards >= success_reward - REWARD_TOLERANCE * max(1.0, abs(success_reward)))


def goal_independent_rewards(stored: Floats, goal_rewards: Floats, sparse_values: Sequence[float] = ()) -> Floats:
    """Return the part of the stored rewards that ``compute_reward`` does not explain; 0 where it explains all.

    A stored reward that equals one of a sparse reward's two values has no goal-independent part. ``compute_reward`` may
    return the other value although both are right, because the stored goal was rounded to float32 or the environment
    moved its goal within the step.

    :param stored: (n,) rewards from the environment's ``step``.
    :param goal_rewards: (n,) ``compute_reward`` of the same transitions under their original goals.
    :param sparse_values: the two values of a sparse ``compute_reward``; empty if it is not known to be sparse.
    """
    tolerance = REWARD_TOLERANCE * np.maximum(1.0, np.abs(stored))
    difference = np.asarray(stored, dtype=np.float64) - goal_rewards
    is_zero = np.abs(difference) <= tolerance
    for value in sparse_values:
        is_zero |= np.abs(stored - value) <= tolerance
    return np.where(is_zero, 0.0, difference)
