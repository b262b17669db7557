"""Relabel transitions: sample new goals, recompute reward and done, sum rewards over steps."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlher.her.done_rule import DoneRule
from rlher.her.rewards import GoalIndependentReward, RewardFunction
from rlher.her.storage import GOAL, Ids, Positions, Storage
from rlher.her.strategies import DESIRED, KEEP, GoalRequest, Strategy


class SampledBatch(NamedTuple):
    """A batch in NumPy: real transitions first, then virtual ones.

    :param now: (batch,) packed rows: observation, with the goal under which rewards count, and action.
    :param after: (batch,) packed observations after the step, or after ``n_steps`` steps.
    :param rewards: (batch,) rewards, or returns over several steps.
    :param dones: (batch,) 1 where nothing is bootstrapped.
    :param discounts: (batch,) discount of the bootstrapped value; None with one-step returns.
    """

    now: NDArray
    after: NDArray
    rewards: NDArray
    dones: NDArray
    discounts: NDArray | None = None


class Relabeller:
    """Gives transitions new goals, and the rewards and dones that follow from them.

    :param strategy: where goals come from.
    :param done_rule: decides the ``done`` of virtual transitions.
    :param keep_goal_independent_reward: keep the reward that ``compute_reward`` does not explain.
    :param mix: strategies of the ``mix`` strategy with their weights.
    :param goal_gamma: discount of the ``geometric`` strategy.
    :param n_steps: steps of a return; fewer where the episode ends, or the new goal is reached.
    :param gamma: discount of the returns.
    :param reward: returns ``compute_reward``; called only where a virtual transition needs it.
    :param part_shares: probability of each part of a goal (:func:`keep_one_part`); None: goals have no parts.
    """

    def __init__(
        self,
        strategy: Strategy,
        done_rule: DoneRule,
        keep_goal_independent_reward: bool,
        mix: Sequence[tuple[Strategy | None, float]],
        goal_gamma: float,
        n_steps: int,
        gamma: float,
        reward: Callable[[], RewardFunction],
        part_shares: Sequence[float] | None = None,
    ) -> None:
        self.strategy, self.done_rule, self.mix, self.goal_gamma = strategy, done_rule, mix, goal_gamma
        self.n_steps, self.gamma, self.reward, self.part_shares = n_steps, gamma, reward, part_shares
        self.goal_independent = GoalIndependentReward(keep_goal_independent_reward, done_rule, self._compute_reward)

    def relabel(self, storage: Storage, ids: Ids, n_real: int, rng: np.random.Generator) -> SampledBatch:
        """Return transitions, of which all but the first ``n_real`` get new goals.

        :param ids: (batch,) of the transitions.
        """
        recompute = n_real < len(ids) or self.part_shares is not None
        if recompute:
            self.goal_independent.update(storage)
        positions = storage.positions(ids)
        now, after = storage.transitions(ids, positions)
        goals, changed = self._replace_goals(storage, ids, now, after, n_real, rng)
        if self.n_steps > 1:
            return self._sum_steps(storage, ids, now, goals, changed)
        rewards, dones = now["_reward"].copy(), now["_terminated"].astype(np.float32)
        if recompute:
            rewards[changed], dones[changed] = self._outcome(storage, positions[changed], now[changed], goals)
        return SampledBatch(now, after, rewards, dones)

    def _replace_goals(
        self, storage: Storage, ids: Ids, now: NDArray, after: NDArray, n_real: int, rng: np.random.Generator
    ) -> tuple[NDArray, slice | NDArray]:
        """Write new goals into all but the first ``n_real`` transitions.

        :return: the goals under which rewards must be recomputed, and the transitions that they belong to.
        """
        changed: slice | NDArray = slice(n_real, None)
        goals = now[GOAL][n_real:]
        if n_real < len(ids):
            episodes = now["_episode"][n_real:]
            request = GoalRequest(
                transition=ids[n_real:],
                first=storage.first.take(episodes),
                last=storage.last.take(episodes),
                rng=rng,
                any_transition=lambda count: storage.sample(count, rng),
                achieved_goals=lambda ids: storage.achieved_goals(storage.positions(ids)),
                is_held=storage.is_held,
                gamma=self.goal_gamma,
                mix=self.mix,
            )
            chosen = self.strategy(request)
            goals = self._goals_of(storage, chosen, rng)
            is_kept = chosen == KEEP
            if is_kept.any():
                changed, goals = n_real + np.flatnonzero(~is_kept), goals[~is_kept]
            now[GOAL][changed] = after[GOAL][changed] = goals
        if self.part_shares is not None:  # the goal may change in every step: use the one before the step
            after[GOAL] = now[GOAL]
            return now[GOAL], slice(0, None)
        return goals, changed

    def _goals_of(self, storage: Storage, chosen: Ids, rng: np.random.Generator) -> NDArray:
        """Return (n, …) the goals that a strategy chose; any goal where it keeps the original one."""
        goals = storage.achieved_goals(storage.positions(chosen))
        if self.part_shares is not None:
            goals = keep_one_part(goals, self.part_shares, rng)
        desired = np.flatnonzero(chosen <= DESIRED)
        if desired.size:  # these have a single part already
            goals[desired] = storage.rows[GOAL][storage.positions(DESIRED - chosen[desired])]
        return goals

    def _outcome(
        self, storage: Storage, positions: Positions, packed: NDArray, goals: NDArray
    ) -> tuple[NDArray, NDArray]:
        """Return the rewards and dones of transitions under new goals.

        :param positions: (n,) of the transitions in the storage.
        :param packed: (n,) packed rows of the transitions.
        :param goals: (n, …) the new goals.
        """
        infos = None if storage.infos is None else storage.infos[positions]
        goal_rewards = self._compute_reward(storage.achieved_goals(positions), goals, infos)
        rewards = goal_rewards + packed["_goal_independent"] if self.goal_independent.keep else goal_rewards
        dones = self.done_rule.done(goal_rewards, packed["_terminated"], packed["_reward"], packed["_goal_independent"])
        return rewards, dones

    def _compute_reward(self, achieved: NDArray, desired: NDArray, infos: NDArray | None) -> NDArray:
        return self.reward()(achieved, desired, None if infos is None else list(infos))

    def _sum_steps(
        self, storage: Storage, ids: Ids, now: NDArray, goals: NDArray, changed: slice | NDArray
    ) -> SampledBatch:
        """Return the batch with returns: the sum of up to ``n_steps`` rewards under one goal.

        A return stops at the episode's newest transition, and at the first step that is done under its goal. Plain
        n-step returns with hindsight are biased off the policy (arXiv:2102.12962), so n should be small.

        :param goals: under which rewards are recomputed at every step.
        :param changed: the transitions that these goals belong to.
        """
        window = ids[:, None] + np.arange(self.n_steps)
        last = storage.last.take(now["_episode"])[:, None]
        positions = storage.positions(np.minimum(window, last))
        steps = storage.rows.take(positions)
        rewards, dones = steps["_reward"].astype(np.float64), steps["_terminated"].astype(np.float32)
        if len(flat := positions[changed].reshape(-1)):
            goal_of_step = np.repeat(goals, self.n_steps, axis=0)
            outcome = self._outcome(storage, flat, steps[changed].reshape(-1), goal_of_step)
            rewards[changed], dones[changed] = (each.reshape(-1, self.n_steps) for each in outcome)
        returns, ended, taken = sum_rewards(rewards, dones, window <= last, self.gamma)
        ends = ids + taken - 1
        _, after = storage.transitions(ends, storage.positions(ends))
        after[GOAL][changed] = goals
        return SampledBatch(now, after, returns, ended, self.gamma**taken)


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
