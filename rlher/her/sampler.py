"""Turn rows of the storage into a batch: draw new goals, recompute reward and done, sum rewards over steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlher.her.done_rule import DoneRule
from rlher.her.goal_independent import GoalIndependentReward
from rlher.her.goal_slots import keep_one_slot
from rlher.her.reward import RewardFunction
from rlher.her.storage import Indices, Storage
from rlher.her.strategies import DESIRED, KEEP, STRATEGIES, Draw, GoalSelectionStrategy


class Drawn(NamedTuple):
    """A batch in NumPy: real transitions first, then virtual ones.

    :param now: (batch,) packed rows: observation and action.
    :param after: (batch,) packed rows: the observation after the step, or after ``n_steps`` steps.
    :param achieved: (batch, …) achieved goals before the step.
    :param next_achieved: (batch, …) achieved goals after it.
    :param goals: (batch, …) desired goals before the step.
    :param next_goals: (batch, …) desired goals after it; may be the same array.
    :param rewards: (batch,) rewards, or returns over several steps.
    :param dones: (batch,) 1 where nothing is bootstrapped.
    :param discounts: (batch,) discount of the bootstrapped value; None with one-step returns.
    """

    now: NDArray
    after: NDArray
    achieved: NDArray
    next_achieved: NDArray
    goals: NDArray
    next_goals: NDArray
    rewards: NDArray
    dones: NDArray
    discounts: NDArray | None


class NewGoals(NamedTuple):
    """Desired goals of a batch.

    :param goals: (batch, …) before the step.
    :param next_goals: (batch, …) after it; may be the same array.
    :param virtual: (n, …) those of the virtual transitions, for ``compute_reward``.
    :param is_original: (n,) which virtual transitions of a mix keep the goal as collected; None: none.
    """

    goals: NDArray
    next_goals: NDArray
    virtual: NDArray
    is_original: NDArray | None


class HindsightSampler:
    """Gives transitions new goals, and the rewards and dones that follow from them.

    :param strategy: where goals come from.
    :param done_rule: decides the ``done`` of virtual transitions.
    :param keep_goal_independent_reward: keep the reward that ``compute_reward`` does not explain.
    :param mix: weights of the ``mix`` strategy.
    :param goal_gamma: discount of the ``geometric`` strategy.
    :param n_steps: steps of a return; fewer where the episode ends, or the new goal is reached.
    :param gamma: discount of those returns.
    :param reward: returns ``compute_reward``; called only where a virtual transition needs it.
    :param slot_shares: probability of each slot of a goal (:mod:`rlher.her.goal_slots`); None: goals have no slots.
    """

    def __init__(
        self,
        strategy: GoalSelectionStrategy,
        done_rule: DoneRule,
        keep_goal_independent_reward: bool,
        mix: Mapping[str, float],
        goal_gamma: float,
        n_steps: int,
        gamma: float,
        reward: Callable[[], RewardFunction],
        slot_shares: Sequence[float] | None = None,
    ) -> None:
        self.strategy, self.done_rule, self.mix, self.goal_gamma = strategy, done_rule, mix, goal_gamma
        self.n_steps, self.gamma, self.reward, self.slot_shares = n_steps, gamma, reward, slot_shares
        self.goal_independent = GoalIndependentReward(keep_goal_independent_reward, done_rule, self._compute_reward)

    def batch(self, storage: Storage, rows: Indices, n_real: int, rng: np.random.Generator) -> Drawn:
        """Return the transitions at those rows; all but the first ``n_real`` get new goals.

        :param rows: (batch,) rows of observations.
        """
        if n_real < len(rows) or self.slot_shares is not None:  # with slots all rewards are recomputed
            self.goal_independent.compute_goal_independent_rewards(storage)
        if self.n_steps > 1:
            return self._n_step_batch(storage, rows, n_real, rng)
        next_rows = rows + 1
        transitions = storage.transitions(rows)
        now, after = transitions["now"], transitions["after"]
        achieved, next_achieved = storage.achieved_in(now, rows), storage.achieved_in(after, next_rows)
        drawn = self._draw_goals(storage, rows, next_rows, now["_episode"].astype(np.int64), n_real, rng)
        rewards, dones = now["_reward"].copy(), now["_terminated"].astype(np.float32)
        if self.slot_shares is not None:  # the goal may change in every step: use the one before the step
            drawn, n_real = drawn._replace(next_goals=drawn.goals, virtual=drawn.goals), 0
        if n_real < len(rows):
            infos = None if storage.infos is None else storage.infos[rows[n_real:]]
            outcomes = storage.achieved_in(after[n_real:], next_rows[n_real:], exact=True)
            outcome = self._outcome(now[n_real:], outcomes, drawn.virtual, infos, drawn.is_original)
            rewards[n_real:], dones[n_real:] = outcome
        return Drawn(now, after, achieved, next_achieved, drawn.goals, drawn.next_goals, rewards, dones, None)

    def _n_step_batch(self, storage: Storage, rows: Indices, n_real: int, rng: np.random.Generator) -> Drawn:
        """Sum up to ``n_steps`` rewards under one goal, recomputed at every step.

        A return stops at the episode's newest row, and at the first step that is done under its goal. Plain n-step
        returns with hindsight are biased off the policy (arXiv:2102.12962), so n should be small.
        """
        now = storage.rows.take(rows)
        episodes = now["_episode"].astype(np.int64)
        window = rows[:, None] + np.arange(self.n_steps)
        last = storage.last.take(episodes)[:, None]
        inside = window < last
        flat = np.minimum(window, last - 1).reshape(-1)
        steps = storage.rows.take(flat)
        drawn = self._draw_goals(storage, rows, rows + 1, episodes, n_real, rng)
        rewards, dones = steps["_reward"].astype(np.float64), steps["_terminated"].astype(np.float32)
        if n_real < len(rows):
            cut = n_real * self.n_steps
            infos = None if storage.infos is None else storage.infos[flat[cut:]]
            virtual = np.repeat(drawn.virtual, self.n_steps, axis=0)
            is_original = None if drawn.is_original is None else np.repeat(drawn.is_original, self.n_steps)
            outcomes = storage.achieved.take(flat[cut:] + 1, axis=0)
            rewards[cut:], dones[cut:] = self._outcome(steps[cut:], outcomes, virtual, infos, is_original)
        shape = inside.shape
        returns, ended, taken = sum_rewards(rewards.reshape(shape), dones.reshape(shape), inside, self.gamma)
        next_rows = rows + taken
        next_goals = storage.goals(next_rows, episodes)
        original = drawn.is_original
        changed = slice(n_real, None) if original is None else n_real + np.flatnonzero(~original)
        next_goals[changed] = drawn.goals[changed]
        after = storage.rows.take(next_rows)
        achieved, next_achieved = storage.achieved_in(now, rows), storage.achieved_in(after, next_rows)
        discounts = self.gamma**taken
        return Drawn(now, after, achieved, next_achieved, drawn.goals, next_goals, returns, ended, discounts)

    def _draw_goals(
        self,
        storage: Storage,
        rows: Indices,
        next_rows: Indices,
        episodes: NDArray,
        n_real: int,
        rng: np.random.Generator,
    ) -> NewGoals:
        is_mix = self.strategy is GoalSelectionStrategy.MIX
        read = slice(len(rows) if is_mix else n_real)  # the transitions whose original goal may be kept
        goals = storage.goals(rows[read], episodes[read])
        next_goals = goals if storage.row_goal is None else storage.goals(next_rows[read], episodes[read])
        if n_real == len(rows):
            return NewGoals(goals, next_goals, goals[n_real:], None)
        draw = Draw(
            row=rows[n_real:],
            episode=episodes[n_real:],
            firsts=storage.first,
            lasts=storage.last,
            rng=rng,
            any_row=lambda count: storage.draw_rows(count, rng) + 1,
            gamma=self.goal_gamma,
            weights=self.mix,
        )
        goal_rows = STRATEGIES[self.strategy](draw)
        virtual = self._goals_at(storage, goal_rows, rng)
        if not is_mix:
            new_goals = np.concatenate((goals, virtual))
            same = next_goals is goals
            return NewGoals(new_goals, new_goals if same else np.concatenate((next_goals, virtual)), virtual, None)
        is_original = goal_rows == KEEP
        changed = np.flatnonzero(~is_original)
        virtual[is_original] = next_goals[n_real:][is_original]
        goals[n_real + changed] = next_goals[n_real + changed] = virtual[changed]
        return NewGoals(goals, next_goals, virtual, is_original)

    def _goals_at(self, storage: Storage, goal_rows: NDArray, rng: np.random.Generator) -> NDArray:
        """Return (n, …) the goals that a strategy's rows stand for; any goal where it keeps the original one."""
        desired = np.flatnonzero(goal_rows <= DESIRED)
        goals = storage.goals_achieved(np.maximum(goal_rows, KEEP) if desired.size else goal_rows)
        if self.slot_shares is not None:
            goals = keep_one_slot(goals, self.slot_shares, rng)
        if desired.size:  # these use a single slot already
            rows = DESIRED - goal_rows[desired]
            goals[desired] = storage.goals(rows, storage.rows["_episode"][rows])
        return goals

    def _outcome(
        self, packed: NDArray, achieved: NDArray, goals: NDArray, infos: NDArray | None, is_original: NDArray | None
    ) -> tuple[NDArray, NDArray]:
        """Return the rewards and dones of transitions under new goals.

        :param packed: (n,) packed rows of the transitions.
        :param achieved: (n, …) their outcomes.
        :param goals: (n, …) the new goals.
        :param infos: (n,) the steps' infos, where they are stored.
        :param is_original: (n,) which ones keep goal, reward and done as collected; None: none.
        """
        explained = self._compute_reward(achieved, goals, infos)
        add_part = self.goal_independent.keep and not self.goal_independent.is_zero
        rewards = explained + packed["_goal_independent"] if add_part else explained
        terminated = packed["_terminated"]
        dones = self.done_rule.done(explained, terminated, packed["_reward"], packed["_goal_independent"])
        if is_original is not None:
            rewards = np.where(is_original, packed["_reward"], rewards)
            dones = np.where(is_original, terminated, dones)
        return rewards, dones

    def _compute_reward(self, achieved: NDArray, desired: NDArray, infos: NDArray | None) -> NDArray:
        if achieved.shape != desired.shape:
            achieved = achieved.reshape(desired.shape)
        return self.reward()(achieved, desired, None if infos is None else list(infos))


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
