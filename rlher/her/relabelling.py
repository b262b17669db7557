"""Relabel transitions: sample new goals, recompute reward and done, sum rewards over steps."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlher.her.reward_and_done import RewardAndDone
from rlher.her.storage import DESIRED_GOAL, Ids, Positions, Storage
from rlher.her.strategies import GoalRequest, Strategy, transitions_of


class RelabelledBatch(NamedTuple):
    """Transitions under their new goals.

    :param rows: (batch,) of ``Storage.rows``, with the new goals in ``obs``.
    :param next_obs: (batch,) packed observations after the last step of the return, with the new goals.
    :param rewards: (batch,) sums of up to ``n_steps`` discounted rewards.
    :param dones: (batch,) 1 where nothing is bootstrapped.
    :param discounts: (batch,) discounts of the bootstrapped values; None: ``gamma``, because returns have one step.
    """

    rows: NDArray
    next_obs: NDArray
    rewards: NDArray
    dones: NDArray
    discounts: NDArray | None


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

    def relabel(self, ids: Ids, n_real: int, rng: np.random.Generator) -> RelabelledBatch:
        """Give new goals to all but the first ``n_real`` of the transitions with these (batch,) ids."""
        has_parts = self.storage.layout.goal_parts > 1
        # With relay sub-goals the goal may change within a step: the row's goal is that of before the step, but its
        # reward belongs to that of after it. So transitions that keep their goals need new rewards, too.
        first_recomputed = 0 if has_parts else n_real
        if first_recomputed < len(ids):
            # Observe up to the last transition that a return can reach. This changes rows, which are copied below.
            self.reward_and_done.observe_new(ids[first_recomputed:] + self.n_steps - 1)
        positions = self.storage.positions(ids)
        rows = self.storage.rows_at(positions)
        new_goals = self._new_goals(ids[n_real:], rows["episode"][n_real:], rng)
        rows["obs"][DESIRED_GOAL][n_real:] = new_goals
        # `new_goals` have the environment's precision, on which a reward may depend; goals in `rows` may be float32.
        goals = rows["obs"][DESIRED_GOAL] if has_parts else new_goals

        rewards, dones, last_ids, discounts = self._returns(ids, positions, rows, goals, first_recomputed)
        next_obs = self.storage.next_obs(last_ids, rows["episode"])
        next_obs[DESIRED_GOAL][first_recomputed:] = goals
        return RelabelledBatch(rows, next_obs, rewards, dones, discounts)

    def _new_goals(self, ids: Ids, episodes: NDArray[np.integer], rng: np.random.Generator) -> NDArray:
        """Return the goals (n, …) that the strategy chooses for transitions of these (n,) episodes."""
        storage = self.storage
        if not len(ids):
            return storage.next_achieved[:0]
        chosen = self.strategy(GoalRequest(ids, episodes, storage, rng))
        positions = storage.positions(transitions_of(chosen))
        goals = storage.next_achieved.take(positions, axis=0)
        if storage.layout.goal_parts > 1:
            goals = keep_one_part(goals, storage.layout.goal_parts, rng)
        is_desired = chosen < 0
        if is_desired.any():  # desired goals have a single part already
            goals[is_desired] = storage.rows["obs"][DESIRED_GOAL][positions[is_desired]]
        return goals

    def _returns(
        self, ids: Ids, positions: Positions, rows: NDArray, goals: NDArray, first_recomputed: int
    ) -> tuple[NDArray, NDArray, Ids, NDArray | None]:
        """Return the (batch,) returns, their dones, the ids of their last transitions, and their discounts.

        A return of several steps stops at the episode's newest transition, and at the first step that is done under its
        goal. With hindsight such returns are biased off the policy (arXiv:2102.12962), so ``n_steps`` should be small.

        :param goals: the goals under which rewards and dones are recomputed, of transition ``first_recomputed`` of the
            batch and all after it.
        """
        if self.n_steps == 1:
            return *self._rewards_and_dones(positions, rows, goals, first_recomputed), ids, None
        steps = ids[:, None] + np.arange(self.n_steps)  # the transitions of each return
        episode_ends = self.storage.episode_last_id.take(rows["episode"])[:, None]
        step_positions = self.storage.positions(np.minimum(steps, episode_ends).reshape(-1))
        step_rewards, step_dones = self._rewards_and_dones(
            step_positions,
            self.storage.rows_at(step_positions),
            goals.repeat(self.n_steps, axis=0),
            first_recomputed * self.n_steps,
        )
        rewards, dones, taken = sum_rewards(
            step_rewards.reshape(steps.shape), step_dones.reshape(steps.shape), steps <= episode_ends, self.gamma
        )
        return rewards, dones, ids + taken - 1, (self.gamma**taken).astype(np.float32)

    def _rewards_and_dones(
        self, positions: Positions, rows: NDArray, goals: NDArray, first_recomputed: int
    ) -> tuple[NDArray, NDArray]:
        """Return the (n,) rewards and dones of transitions, stored ones and, from ``first_recomputed`` on, new ones."""
        rewards = rows["reward"].copy()
        dones = rows["terminated"].astype(np.float32)
        if len(goals):
            recomputed = slice(first_recomputed, None)
            rewards[recomputed], dones[recomputed] = self.reward_and_done.rewards_and_dones(
                positions[recomputed], rows[recomputed], goals
            )
        return rewards, dones


def keep_one_part(goals: NDArray, parts: int, rng: np.random.Generator) -> NDArray:
    """Return goals of several parts with one random part each; the other parts are zero.

    Relay sub-goals (``rlher.envs.relay``) have such goals, of which each episode pursues one part at a time.

    :param goals: (n, parts × size).
    """
    count = len(goals)
    chosen = (rng.random(count) * parts).astype(np.int64)
    is_kept = np.arange(parts) == chosen[:, None]
    return np.where(is_kept[:, :, None], goals.reshape(count, parts, -1), 0).reshape(goals.shape)


def sum_rewards(
    rewards: NDArray, dones: NDArray, inside: NDArray, gamma: float
) -> tuple[NDArray, NDArray, NDArray[np.int64]]:
    """Return (n,) discounted returns, dones and numbers of steps.

    :param rewards: (n, steps).
    :param dones: (n, steps); a return ends with the first done.
    :param inside: (n, steps) whether the step belongs to the episode; the first does.
    :param gamma: discount.
    """
    done_before = np.cumsum(dones, axis=1) - dones > 0
    taken = inside & ~done_before
    returns = (rewards * taken) @ gamma ** np.arange(rewards.shape[1])
    return returns.astype(np.float32), (dones * taken).max(axis=1), taken.sum(axis=1)
