"""Relabel transitions: sample new goals, recompute reward and done, sum rewards over steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlher.her.reward_and_done import RewardAndDone
from rlher.her.storage import DESIRED_GOAL, Ids, Storage
from rlher.her.strategies import GoalRequest, Strategy, transitions_of


@dataclass
class Relabeller:
    """Gives transitions new goals, and the rewards and dones that follow from them.

    :param storage: the stored transitions.
    :param reward_and_done: computes rewards and dones.
    :param strategy: chooses the new goals.
    :param n_steps: steps of a return; fewer where the episode ends, or the new goal is reached.
    :param gamma: discount of the returns.
    """

    storage: Storage
    reward_and_done: RewardAndDone
    strategy: Strategy
    n_steps: int
    gamma: float

    def relabel(
        self, ids: Ids, n_real: int, rng: np.random.Generator
    ) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray | None]:
        """Give new goals to all but the first ``n_real`` of the transitions with these (batch,) ids.

        :return: (batch,) each: packed rows with their goals in ``obs``; packed observations after the last step of the
            return, with the same goals; sums of up to ``n_steps`` discounted rewards; dones, 1 where nothing is
            bootstrapped; discounts of the bootstrapped values, None with one step, because all are ``gamma``.
        """
        storage = self.storage
        has_parts = storage.layout.goal_parts > 1
        # Relay sub-goals may change within a step. A row has the goal before the step, but its reward is for the goal
        # after it. So transitions that keep their goals need new rewards.
        n_unchanged = 0 if has_parts else n_real
        if n_unchanged < len(ids):
            # Up to the last transition that a return can reach. This changes rows in the storage, so it comes first.
            self.reward_and_done.observe_new(ids[n_unchanged:] + self.n_steps - 1)
        positions = storage.positions(ids)
        rows = storage.rows_at(positions)
        goals = self._sample_goals(ids[n_real:], rows["episode"][n_real:], rng)
        rows["obs"][DESIRED_GOAL][n_real:] = goals
        if has_parts:
            goals = rows["obs"][DESIRED_GOAL]  # also those that transitions keep

        last_ids, discounts = ids, None
        if self.n_steps == 1:
            rewards, dones = self.reward_and_done.rewards_and_dones(positions, rows, goals)
        else:
            rewards, dones, n_summed = self._returns(ids, rows["episode"], goals)
            last_ids, discounts = ids + n_summed - 1, self.gamma**n_summed
        next_obs = storage.next_obs(last_ids, rows["episode"])
        next_obs[DESIRED_GOAL][n_unchanged:] = goals
        return rows, next_obs, rewards, dones, discounts

    def _sample_goals(self, ids: Ids, episodes: NDArray[np.integer], rng: np.random.Generator) -> NDArray:
        """Return new goals (n, …) for transitions of these (n,) episodes.

        They have the environment's precision, on which a reward may depend; observations may be float32.
        """
        storage = self.storage
        if not len(ids):
            return storage.next_achieved[:0]
        goal_ids = self.strategy(GoalRequest(ids, episodes, storage, rng))
        positions = storage.positions(transitions_of(goal_ids))
        goals = storage.next_achieved.take(positions, axis=0)
        if storage.layout.goal_parts > 1:
            goals = keep_one_part(goals, storage.layout.goal_parts, rng)
        is_desired = goal_ids < 0
        if is_desired.any():  # desired goals have a single part already
            goals[is_desired] = storage.rows["obs"][DESIRED_GOAL][positions[is_desired]]
        return goals

    def _returns(
        self, ids: Ids, episodes: NDArray[np.integer], goals: NDArray
    ) -> tuple[NDArray, NDArray, NDArray[np.int64]]:
        """Return the (batch,) returns of several steps, their dones, and the numbers of their steps.

        A return stops at the episode's newest transition, and at the first step that is done under its goal. With
        hindsight such returns are biased off the policy (arXiv:2102.12962), so ``n_steps`` should be small.

        :param goals: (m, …) goals of the last m transitions of the batch; the others keep their rewards.
        """
        step_ids = ids[:, None] + np.arange(self.n_steps)
        last_ids = self.storage.episode_last_id.take(episodes)[:, None]
        positions = self.storage.positions(np.minimum(step_ids, last_ids).reshape(-1))
        rewards, dones = self.reward_and_done.rewards_and_dones(
            positions, self.storage.rows_at(positions), goals.repeat(self.n_steps, axis=0)
        )
        shape = step_ids.shape
        return sum_rewards(rewards.reshape(shape), dones.reshape(shape), step_ids <= last_ids, self.gamma)


def keep_one_part(goals: NDArray, parts: int, rng: np.random.Generator) -> NDArray:
    """Return goals of several parts with one random part each; the other parts are zero.

    Relay sub-goals (``rlher.envs.relay``) have such goals, of which each episode pursues one part at a time.

    :param goals: (n, parts × size).
    """
    count = len(goals)
    kept_part = (rng.random(count) * parts).astype(np.int64)
    is_kept = np.arange(parts) == kept_part[:, None]
    return np.where(is_kept[:, :, None], goals.reshape(count, parts, -1), 0).reshape(goals.shape)


def sum_rewards(
    rewards: NDArray, dones: NDArray, is_in_episode: NDArray, gamma: float
) -> tuple[NDArray, NDArray, NDArray[np.int64]]:
    """Return (n,) discounted returns, dones and numbers of steps.

    :param rewards: (n, steps).
    :param dones: (n, steps); a return ends with the first done.
    :param is_in_episode: (n, steps) whether the step belongs to the episode; the first does.
    :param gamma: discount.
    """
    is_done_before = np.cumsum(dones, axis=1) - dones > 0
    is_summed = is_in_episode & ~is_done_before
    returns = (rewards * is_summed) @ gamma ** np.arange(rewards.shape[1])
    return returns.astype(np.float32), (dones * is_summed).max(axis=1), is_summed.sum(axis=1)
