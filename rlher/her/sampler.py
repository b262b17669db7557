"""From rows of the storage to a batch: goals drawn, rewards and dones worked out for them, steps summed up."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlher.her.done_rule import DoneRule, goal_independent
from rlher.her.goal_slots import keep_one_slot
from rlher.her.reward import RewardFunction
from rlher.her.storage import Indices, Storage
from rlher.her.strategies import KEEP, STRATEGIES, Draw, GoalSelectionStrategy

CHUNK = 16_384
"""Transitions settled in one call of ``compute_reward``."""


class Drawn(NamedTuple):
    """A batch in NumPy: real transitions first, then virtual ones.

    :param now: (batch,) packed rows: observation and action.
    :param after: (batch,) packed rows: the observation that the return leads to.
    :param achieved: (batch, …) what was achieved by now.
    :param next_achieved: (batch, …) what is achieved after.
    :param goals: (batch, …) goals desired now.
    :param next_goals: (batch, …) goals desired after; may be the same array.
    :param rewards: (batch,) rewards, or returns over several steps.
    :param dones: (batch,) whether nothing is to be bootstrapped.
    :param discounts: (batch,) discount of what is bootstrapped; None with one-step returns.
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


class Hindsight:
    """Gives transitions new goals, and the rewards and dones that follow from them.

    :param strategy: where goals come from.
    :param done_rule: decides the ``done`` of virtual transitions.
    :param keep_goal_independent_reward: carry over the reward that ``compute_reward`` does not explain.
    :param mix: weights of the ``mix`` strategy.
    :param goal_gamma: discount of the ``geometric`` strategy.
    :param n_steps: steps a return sums up; fewer where the episode, or the new goal, ends them.
    :param gamma: discount of those returns.
    :param reward: ``compute_reward``, called only where a virtual transition needs it.
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
        self.keep_goal_independent_reward = keep_goal_independent_reward
        self.n_steps, self.gamma, self.reward = n_steps, gamma, reward
        self.slot_shares = slot_shares
        self.settled: list[int] = []  # per environment, transitions settled, of all ever added
        self.explains_all = True  # whether compute_reward explained the reward of all of them

    def batch(self, storage: Storage, rows: Indices, n_real: int, rng: np.random.Generator) -> Drawn:
        """Return the transitions at those rows; all but the first ``n_real`` get new goals.

        :param rows: (batch,) rows of observations.
        """
        if self.n_steps > 1:
            return self._n_step_batch(storage, rows, n_real, rng)
        next_rows = rows + 1
        now, after = storage.rows.take(rows), storage.rows.take(next_rows)
        achieved, next_achieved = storage.achieved_at(rows, now), storage.achieved_at(next_rows, after)
        episodes = now["_episode"].astype(np.int64)
        goals, next_goals, new, kept = self._goals(storage, rows, next_rows, episodes, n_real, rng)
        rewards, dones = now["_reward"].copy(), now["_terminated"].astype(np.float32)
        if self.slot_shares is not None:  # the goal shown may change from step to step: hold it for the transition
            next_goals, new, n_real = goals, goals, 0
        if n_real < len(rows):
            infos = None if storage.infos is None else storage.infos[rows[n_real:]]
            outcome = self._outcome(now[n_real:], next_achieved[n_real:], new, infos, kept)
            rewards[n_real:], dones[n_real:] = outcome
        return Drawn(now, after, achieved, next_achieved, goals, next_goals, rewards, dones, None)

    def _n_step_batch(self, storage: Storage, rows: Indices, n_real: int, rng: np.random.Generator) -> Drawn:
        """Sum up to ``n_steps`` rewards under one goal, recomputed at every step.

        A return stops at the episode's newest row, and at the first step that is done under the goal it is
        for: beyond a relabelled success there is nothing to add. Plain n-step returns with hindsight are
        biased off the policy (arXiv:2102.12962), so small n.
        """
        now = storage.rows.take(rows)
        episodes = now["_episode"].astype(np.int64)
        window = rows[:, None] + np.arange(self.n_steps)
        last = storage.last.take(episodes)[:, None]
        inside = window < last
        flat = np.minimum(window, last - 1).reshape(-1)
        steps = storage.rows.take(flat)
        goals, _, new, kept = self._goals(storage, rows, rows + 1, episodes, n_real, rng)
        rewards, dones = steps["_reward"].astype(np.float64), steps["_terminated"].astype(np.float32)
        if n_real < len(rows):
            cut = n_real * self.n_steps
            infos = None if storage.infos is None else storage.infos[flat[cut:]]
            again = [None if x is None else np.repeat(x, self.n_steps, axis=0) for x in (new, kept)]
            outcomes = storage.achieved.take(flat[cut:] + 1, axis=0)
            rewards[cut:], dones[cut:] = self._outcome(steps[cut:], outcomes, again[0], infos, again[1])
        shape = inside.shape
        returns, ended, taken = sum_up(rewards.reshape(shape), dones.reshape(shape), inside, self.gamma)
        next_rows = rows + taken
        next_goals = storage.goals(next_rows, episodes)
        changed = slice(n_real, None) if kept is None else n_real + np.flatnonzero(~kept)
        next_goals[changed] = goals[changed]
        after = storage.rows.take(next_rows)
        achieved, next_achieved = storage.achieved_at(rows, now), storage.achieved_at(next_rows, after)
        return Drawn(now, after, achieved, next_achieved, goals, next_goals, returns, ended, self.gamma**taken)

    def _goals(
        self,
        storage: Storage,
        rows: Indices,
        next_rows: Indices,
        episodes: NDArray,
        n_real: int,
        rng: np.random.Generator,
    ) -> tuple[NDArray, NDArray, NDArray, NDArray | None]:
        """Return the goals of all rows and of all next rows, the goals of the virtual ones to compute rewards
        for, and (for a mix) which of the virtual ones keep the goal they were collected with.
        """
        goals = storage.goals(rows, episodes)
        next_goals = goals if storage.row_goal is None else storage.goals(next_rows, episodes)
        if n_real == len(rows):
            return goals, next_goals, goals[n_real:], None
        draw = Draw(
            row=rows[n_real:],
            episode=episodes[n_real:],
            firsts=storage.first,
            lasts=storage.last,
            rng=rng,
            any_row=lambda count: storage.rows_of(storage.draw(count, rng)) + 1,
            gamma=self.goal_gamma,
            weights=self.mix,
        )
        goal_rows = STRATEGIES[self.strategy](draw)
        new, kept = storage.goals_achieved(goal_rows), None
        if self.slot_shares is not None:
            new = keep_one_slot(new, self.slot_shares, rng)
        if self.strategy is GoalSelectionStrategy.MIX:
            kept = goal_rows == KEEP
            changed = np.flatnonzero(~kept)
            new[kept] = next_goals[n_real:][kept]
            goals[n_real + changed] = next_goals[n_real + changed] = new[changed]
        else:
            goals[n_real:] = new
            if next_goals is not goals:
                next_goals[n_real:] = new
        return goals, next_goals, new, kept

    def _outcome(
        self, now: NDArray, after: NDArray, goals: Any, infos: NDArray | None, kept: NDArray | None
    ) -> tuple[NDArray, NDArray]:
        """Return the rewards and dones of packed rows under new goals.

        :param now: (n,) packed rows.
        :param after: (n, …) what their steps achieved.
        :param goals: (n, …) the new goals.
        :param infos: (n,) the steps' infos, where they are stored.
        :param kept: (n,) which rows keep their own goal, and so the reward and done they were collected with.
        """
        explained = self._compute(after, goals, infos)
        keep_rest = self.keep_goal_independent_reward and not self.explains_all
        rewards = explained + now["_rest"] if keep_rest else explained
        terminated = now["_terminated"]
        dones = self.done_rule.done(explained, terminated, now["_reward"], now["_rest"])
        if kept is not None:
            rewards = np.where(kept, now["_reward"], rewards)
            dones = np.where(kept, terminated, dones)
        return rewards, dones

    def _compute(self, achieved: NDArray, desired: NDArray, infos: NDArray | None) -> NDArray:
        if achieved.shape != desired.shape:
            achieved = achieved.reshape(desired.shape)
        return self.reward()(achieved, desired, None if infos is None else list(infos))

    @property
    def settles(self) -> bool:
        """Whether :meth:`settle` has anything to find out."""
        return self.keep_goal_independent_reward or self.done_rule.mode in ("auto", "success")

    def state(self) -> dict[str, Any]:
        """Return what was learnt from the stored transitions, as JSON values."""
        return {"settled": self.settled, "explains_all": self.explains_all, **self.done_rule.state()}

    def restore(self, state: dict[str, Any], totals: Sequence[int]) -> None:
        """Take back what :meth:`state` returned.

        :param totals: per environment, transitions ever added.
        :raises ValueError: more of them were settled than added, or it holds something else.
        """
        settled = list(state["settled"])
        each = zip(settled, totals, strict=True) if settled else ()
        if not all(isinstance(done, int) and 0 <= done <= total for done, total in each):
            raise ValueError("its settled transitions do not add up")
        self.settled, self.explains_all = settled, bool(state["explains_all"])
        self.done_rule.restore(state)

    def settle(self, storage: Storage) -> None:
        """Work out, for what was added since the last call, the reward that its own goal does not explain.

        Once per transition, in batches, so that a sample itself computes the rewards of the new goals only.
        """
        if not self.settles:
            return
        rings = storage.rings
        if self.settled == [ring.total for ring in rings]:
            return
        self.settled = self.settled or [0] * len(rings)
        fresh = [ring.numbered(*ring.fresh(done)) for ring, done in zip(rings, self.settled, strict=True)]
        self.settled = [ring.total for ring in rings]
        rows = storage.rows_of(fresh[0] if len(fresh) == 1 else np.concatenate(fresh))
        for start in range(0, len(rows), CHUNK):
            self._settle_rows(storage, rows[start : start + CHUNK])

    def _settle_rows(self, storage: Storage, rows: Indices) -> None:
        now = storage.rows.take(rows)
        achieved = storage.goals_achieved(rows + 1)
        # The environment pays for the goal it shows after the step, which PointMaze may just have moved.
        desired = storage.goals(rows + 1, now["_episode"])
        infos = None if storage.infos is None else storage.infos[rows]
        explained = self._compute(achieved, desired, infos)
        rest = goal_independent(now["_reward"], explained)
        storage.rows["_rest"][rows] = rest
        self.explains_all = self.explains_all and not rest.any()
        if self.done_rule.learns:
            perfect = self._compute(achieved, achieved, infos) if self.done_rule.needs_perfect else None
            self.done_rule.observe(explained, perfect, now["_terminated"])


def sum_up(
    rewards: NDArray, dones: NDArray, inside: NDArray, gamma: float
) -> tuple[NDArray, NDArray, NDArray[np.int64]]:
    """Return returns, dones and numbers of steps (n,) of windows of steps.

    :param rewards: (n, steps).
    :param dones: (n, steps); a return ends with the first done.
    :param inside: (n, steps) whether the step exists; the first does.
    :param gamma: discount.
    """
    over = np.cumsum(dones, axis=1) - dones > 0  # done at an earlier step
    taken = inside & ~over
    returns = (rewards * taken) @ gamma ** np.arange(rewards.shape[1])
    return returns.astype(np.float32), (dones * taken).max(axis=1), taken.sum(axis=1)
