"""The goal-independent part of rewards: what the environment adds to ``compute_reward``, such as a crash penalty.

SB3 recomputes the reward of a virtual transition from the goals alone, so that parking's crash penalty is lost
(openai/baselines #720, HighwayEnv #473). Here the difference is computed once per transition and kept.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.done_rule import DoneRule
from rlher.her.sparse_reward import Floats, SparseReward
from rlher.her.storage import Indices, Storage

ROUNDING = 1e-5
"""Largest difference of two equal rewards (relative above 1), because rewards are stored as float32."""

CHUNK = 16_384
"""Transitions in one call of ``compute_reward``."""

Compute = Callable[[NDArray, NDArray, NDArray | None], Floats]


def goal_independent_part(stored: Floats, explained: Floats, sparse_values: Sequence[float] = ()) -> Floats:
    """Return the part of the stored rewards that ``compute_reward`` does not explain; 0 where it explains all.

    A stored reward that equals one of a sparse reward's two values has no goal-independent part. If ``compute_reward``
    returns the other value, it was given a different goal (rounded to float32, or moved in the same step).

    :param stored: (n,) rewards from the environment's ``step``.
    :param explained: (n,) ``compute_reward`` of the same transitions and their original goals.
    :param sparse_values: the two values of a sparse ``compute_reward``; empty: it is not known to be sparse.
    """
    part = np.asarray(stored, dtype=np.float64) - explained
    is_zero = np.abs(part) <= _tolerance(stored)
    for value in sparse_values:
        is_zero |= np.abs(stored - value) <= _tolerance(stored)
    return np.where(is_zero, 0.0, part)


def _tolerance(rewards: Floats) -> Floats:
    return ROUNDING * np.maximum(1.0, np.abs(rewards))


class GoalIndependentReward:
    """Computes the goal-independent part of each transition's reward once, and passes each to the done rule.

    :param keep: whether virtual rewards contain that part.
    :param done_rule: observes each transition with its original goal.
    :param compute: ``compute_reward`` for achieved goals, desired goals and infos.
    """

    def __init__(self, keep: bool, done_rule: DoneRule, compute: Compute) -> None:
        self.keep, self.done_rule, self.compute = keep, done_rule, compute
        # Whether anything depends on the rewards under the original goals.
        self.is_needed = keep or done_rule.mode in ("auto", "success")
        self.reset()

    def reset(self) -> None:
        """Discard everything observed."""
        self.computed: list[int] = []  # per environment: number of transitions processed
        self.is_zero = True  # whether compute_reward explained all rewards so far
        self.sparse = SparseReward()
        self.done_rule.reset(self.sparse)

    def compute_goal_independent_rewards(self, storage: Storage) -> None:
        """Process the transitions added since the last call, in batches.

        Afterwards a sample calls ``compute_reward`` for its new goals only.
        """
        if not self.is_needed:
            return
        rings = storage.rings
        if self.computed == [ring.total for ring in rings]:
            return
        fixed = storage.fixed_rows[: 0 if self.computed else None]  # in the first call only
        self.computed = self.computed or [0] * len(rings)
        slots = [ring.slots(*ring.held_since(done)) for ring, done in zip(rings, self.computed, strict=True)]
        self.computed = [ring.total for ring in rings]
        rows = storage.rows_of(slots[0] if len(slots) == 1 else np.concatenate(slots))
        rows = np.concatenate((fixed, rows)) if len(fixed) else rows
        for start in range(0, len(rows), CHUNK):
            self._process(storage, rows[start : start + CHUNK])

    def _process(self, storage: Storage, rows: Indices) -> None:
        packed = storage.rows.take(rows)
        achieved = storage.achieved.take(rows + 1, axis=0)
        # Rewards belong to the goal shown after the step; PointMaze may move the goal in a step.
        desired = storage.goals(rows + 1, packed["_episode"])
        infos = None if storage.infos is None else storage.infos[rows]
        explained = self.compute(achieved, desired, infos)
        if self.sparse.is_open:
            exact = None
            if self.sparse.needs_exact:
                exact = self.compute(achieved, storage.goals_achieved(rows + 1), infos)
            self.sparse.observe(explained, exact)
        part = goal_independent_part(packed["_reward"], explained, self.sparse.values)
        storage.rows["_goal_independent"][rows] = part
        self.is_zero = self.is_zero and not part.any()
        if self.done_rule.needs_observations:
            self.done_rule.observe(explained, packed["_terminated"])

    def state(self) -> dict[str, Any]:
        """Return everything observed, as JSON values."""
        observed = {"settled": self.computed, "explains_all": self.is_zero}
        return observed | self.sparse.state() | self.done_rule.state()

    def restore(self, state: dict[str, Any], totals: Sequence[int]) -> None:
        """Restore a value of :meth:`state`.

        :param totals: per environment, transitions ever added.
        :raises ValueError: it does not fit these numbers, or a value has the wrong type.
        """
        computed = list(state["settled"])
        each = zip(computed, totals, strict=True) if computed else ()
        if not all(isinstance(done, int) and 0 <= done <= total for done, total in each):
            raise ValueError("the numbers of processed transitions do not fit the storage")
        self.computed, self.is_zero = computed, bool(state["explains_all"])
        self.sparse.restore(state)
        self.done_rule.restore(state)
