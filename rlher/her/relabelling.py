"""Relabel transitions: sample new goals, recompute reward and done, sum rewards over steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlher.her.reward_and_done import RewardAndDone
from rlher.her.storage import DESIRED_GOAL, Ids, Storage
from rlher.her.strategies import DESIRED, KEEP, GoalRequest, Strategy


class RelabelledBatch(NamedTuple):
    """Transitions under their new goals.

    :param rows: (batch,) of ``Storage.rows``, with the new goals in ``obs``.
    :param next_obs: (batch,) packed observations after the return, with the new goals.
    :param rewards: (batch,) sums of up to ``n_steps`` discounted rewards.
    :param dones: (batch,) 1 where nothing is bootstrapped.
    :param discounts: (batch,) of the bootstrapped value; None: ``gamma``, because returns have one step.
    """

    rows: NDArray
    next_obs: NDArray
    rewards: NDArray
    dones: NDArray
    discounts: NDArray | None


@dataclass
class Relabeller:
    """Gives transitions new goals, and the rewards and dones that follow from them.

    :param strategy: where goals come from.
    :param reward_and_done: computes rewards and dones.
    :param mix: strategies of the ``mix`` strategy with their weights.
    :param goal_gamma: discount of the ``geometric`` strategy.
    :param n_steps: steps of a return; fewer where the episode ends, or the new goal is reached.
    :param gamma: discount of the returns.
    :param part_shares: probability of each part of a goal (:func:`keep_one_part`); None: goals have no parts.
    """

    strategy: Strategy
    reward_and_done: RewardAndDone
    mix: Sequence[tuple[Strategy | None, float]]
    goal_gamma: float
    n_steps: int
    gamma: float
    part_shares: Sequence[float] | None = None

    def relabel(self, storage: Storage, ids: Ids, n_real: int, rng: np.random.Generator) -> RelabelledBatch:
        """Give new goals to all but the first ``n_real`` of the transitions with these (batch,) ids."""
        recompute = n_real < len(ids) or self.part_shares is not None
        if recompute:
            self.reward_and_done.update_statistics(storage)
        positions = storage.positions(ids)
        rows, next_obs = storage.transitions(ids, positions)
        goals, recomputed = self._replace_goals(storage, ids, rows, next_obs, n_real, rng)
        if self.n_steps > 1:
            return self._sum_steps(storage, ids, rows, goals, recomputed)
        rewards, dones = rows["reward"].copy(), rows["terminated"].astype(np.float32)
        if recompute:
            rewards[recomputed], dones[recomputed] = self.reward_and_done.rewards_and_dones(
                storage, positions[recomputed], rows[recomputed], goals
            )
        return RelabelledBatch(rows, next_obs, rewards, dones, None)

    def _replace_goals(
        self, storage: Storage, ids: Ids, rows: NDArray, next_obs: NDArray, n_real: int, rng: np.random.Generator
    ) -> tuple[NDArray, slice | NDArray]:
        """Write new goals into all but the first ``n_real`` transitions.

        :return: the goals under which rewards must be recomputed, and the transitions that they belong to.
        """
        changed: slice | NDArray = slice(n_real, None)
        original_goals, next_goals = rows["obs"][DESIRED_GOAL], next_obs[DESIRED_GOAL]
        goals = original_goals[n_real:]
        if n_real < len(ids):
            episodes = rows["episode"][n_real:]
            request = GoalRequest(
                transitions=ids[n_real:],
                first_ids=storage.first_id.take(episodes),
                last_ids=storage.last_id.take(episodes),
                rng=rng,
                sample_transitions=lambda count: storage.sample(count, rng),
                achieved_goals=lambda ids: storage.next_achieved[storage.positions(ids)],
                is_stored=storage.is_stored,
                gamma=self.goal_gamma,
                mix=self.mix,
            )
            chosen = self.strategy(request)
            goals = self._goals_of(storage, chosen, rng)
            is_kept = chosen == KEEP
            if is_kept.any():
                changed, goals = n_real + np.flatnonzero(~is_kept), goals[~is_kept]
            original_goals[changed] = next_goals[changed] = goals
        if self.part_shares is not None:  # the goal may change in every step: use the one before the step
            next_goals[:] = original_goals
            return original_goals, slice(0, None)
        return goals, changed

    def _goals_of(self, storage: Storage, chosen: Ids, rng: np.random.Generator) -> NDArray:
        """Return the goals (n, …) that a strategy chose; arbitrary ones where it keeps the original goal."""
        # KEEP and DESIRED - id are negative, but have valid positions too; what is read there is not used.
        goals = storage.next_achieved.take(storage.positions(chosen), axis=0)
        if self.part_shares is not None:
            goals = keep_one_part(goals, self.part_shares, rng)
        is_desired = chosen <= DESIRED
        if is_desired.any():  # these have a single part already
            goals[is_desired] = storage.rows["obs"][DESIRED_GOAL][storage.positions(DESIRED - chosen[is_desired])]
        return goals

    def _sum_steps(
        self, storage: Storage, ids: Ids, rows: NDArray, goals: NDArray, recomputed: slice | NDArray
    ) -> RelabelledBatch:
        """Return the transitions with the sum of up to ``n_steps`` rewards under one goal.

        A return stops at the episode's newest transition, and at the first step that is done under its goal. Plain
        n-step returns with hindsight are biased off the policy (arXiv:2102.12962), so n should be small.

        :param goals: under which rewards are recomputed at every step.
        :param recomputed: the transitions that these goals belong to.
        """
        window = ids[:, None] + np.arange(self.n_steps)
        last = storage.last_id.take(rows["episode"])[:, None]
        positions = storage.positions(np.minimum(window, last))
        steps = storage.rows.take(positions)
        rewards, dones = steps["reward"].astype(np.float64), steps["terminated"].astype(np.float32)
        if len(flat := positions[recomputed].reshape(-1)):
            goal_of_step, flat_rows = np.repeat(goals, self.n_steps, axis=0), steps[recomputed].reshape(-1)
            both = self.reward_and_done.rewards_and_dones(storage, flat, flat_rows, goal_of_step)
            rewards[recomputed], dones[recomputed] = (each.reshape(-1, self.n_steps) for each in both)
        returns, ended, taken = sum_rewards(rewards, dones, window <= last, self.gamma)
        ends = ids + taken - 1
        _, next_obs = storage.transitions(ends, storage.positions(ends))
        next_obs[DESIRED_GOAL][recomputed] = goals
        return RelabelledBatch(rows, next_obs, returns, ended, (self.gamma**taken).astype(np.float32))


def keep_one_part(goals: NDArray, shares: Sequence[float], rng: np.random.Generator) -> NDArray:
    """Return goals of several parts with one random part each; the other parts are zero.

    Relay sub-goals (``rlher.envs.relay``) have such goals, of which each episode pursues one part at a time.

    :param goals: (n, parts × size).
    :param shares: (parts,) probability of each part.
    """
    count, parts = len(goals), len(shares)
    limits = np.cumsum(shares)
    chosen = np.searchsorted(limits / limits[-1], rng.random(count), side="right")
    wide = goals.reshape(count, parts, -1)
    return np.where((np.arange(parts) == chosen[:, None])[:, :, None], wide, 0).reshape(goals.shape)


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
