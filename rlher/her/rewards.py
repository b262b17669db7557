"""Rewards of transitions under new goals: ``compute_reward``, and the part of a reward that it does not explain.

SB3 computes the reward of a virtual transition from the goals alone, so that parking's crash penalty is lost
(openai/baselines #720, HighwayEnv #473). Here the difference is computed once per transition and kept.
"""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.core.errors import describe_error
from rlher.her.done_rule import DoneRule
from rlher.her.storage import GOAL, Ids, Storage

Floats = NDArray[np.floating[Any]]

CHECKED = 4
"""Rows of the first batch that are also computed one by one, to check that the function is vectorised."""

NOT_VECTORISED = (
    "compute_reward is not vectorised: {}. It is called row by row, which is slow; reduce over the last axis only, as "
    "in np.linalg.norm(achieved_goal - desired_goal, axis=-1)."
)
"""Message about a :func:`batch_problem`."""

ROUNDING = 1e-5
"""Largest difference of two equal rewards (relative above 1), because rewards are stored as float32."""

CHUNK = 16_384
"""Transitions in one call of ``compute_reward`` when goal-independent rewards are computed."""


class RewardFunction:
    """Calls ``compute_reward(achieved_goal, desired_goal, info)`` on batches, or row by row where necessary.

    A function not written for batches raises, returns the wrong shape (stable-baselines3 #854, #1337), or returns
    wrong rewards. The first call compares some rows with single calls. After any difference every call loops over the
    rows, after one warning.

    :param call: the function, vectorised or not.
    :param of_env: whether it was taken from an environment, and so is not pickled.
    :param remote: whether it runs in another process, which must not be in the middle of a step.
    """

    def __init__(self, call: Callable[..., Any], of_env: bool = False, remote: bool = False) -> None:
        self.call, self.of_env, self.remote = call, of_env, remote
        self._vectorised: bool | None = None

    @classmethod
    def of(cls, env: Any) -> "RewardFunction":
        """Return the function of a vectorised environment's first environment.

        In this process it is called directly; in another process through ``env_method``, one message per batch.

        :param env: an SB3 ``VecEnv``. One with processes may have an environment in this process as ``reward_env``.
        :raises AttributeError: the environment has no ``compute_reward``.
        """
        inner = env
        while hasattr(inner, "venv"):
            inner = inner.venv
        local = inner.envs[0] if hasattr(inner, "envs") else getattr(inner, "reward_env", None)
        if local is not None:
            return cls(local.get_wrapper_attr("compute_reward"), of_env=True)

        def remote(achieved: Any, desired: Any, info: Any) -> Any:
            return env.env_method("compute_reward", achieved, desired, info, indices=[0])[0]

        return cls(remote, of_env=True, remote=True)

    def __call__(self, achieved: NDArray, desired: NDArray, infos: Sequence[dict] | None = None) -> Floats:
        """Return the (n,) rewards of n pairs of goals.

        :param achieved: (n, …) achieved goals, raw (not normalised).
        :param desired: (n, …) desired goals, raw.
        :param infos: n info dictionaries, of which the function gets a copy; None: empty ones.
        """
        count = len(achieved)
        if count == 0:
            return np.zeros(0)
        infos = [{}] * count if infos is None else _copies(infos)
        if self._vectorised is None:
            self._vectorised = self._warn_if_not_vectorised(achieved, desired, infos)
        if self._vectorised:
            return np.asarray(self.call(achieved, desired, infos)).reshape(count)
        return _row_by_row(self.call, achieved, desired, infos)

    def _warn_if_not_vectorised(self, achieved: NDArray, desired: NDArray, infos: Sequence[dict]) -> bool:
        """Return whether the function can be called on batches; warn if it cannot."""
        problem = batch_problem(self.call, achieved[:CHECKED], desired[:CHECKED], infos[:CHECKED])
        if problem is not None:
            warnings.warn(NOT_VECTORISED.format(problem), stacklevel=3)
        return problem is None


def batch_problem(
    compute_reward: Callable[..., Any], achieved: NDArray, desired: NDArray, infos: Sequence[dict]
) -> str | None:
    """Return what ``compute_reward`` does wrong on a batch of goals; None: it returns the rewards of single calls."""
    count = max(2, len(achieved))
    while count in achieved.shape[1:]:  # a reduction over the wrong axis must return another shape
        count += 1
    rows = [row % len(achieved) for row in range(count)]
    batch = achieved[rows], desired[rows], [infos[row] for row in rows]
    try:
        together = np.asarray(compute_reward(*batch[:2], _copies(batch[2])), dtype=np.float64)
    except Exception as error:
        return f"a batch of goals raises {describe_error(error.__cause__ or error)}"
    try:
        single = _row_by_row(compute_reward, *batch[:2], _copies(batch[2]))
    except Exception:
        return None  # takes batches only
    if together.size != count:
        return f"a batch of {count} goals gives shape {together.shape} instead of ({count},)"
    if not np.allclose(together.reshape(count), single, rtol=1e-4, atol=1e-6, equal_nan=True):
        return f"a batch gives {together.reshape(count)}, its rows alone give {single}"
    return None


def _row_by_row(
    compute_reward: Callable[..., Any], achieved: NDArray, desired: NDArray, infos: Sequence[dict]
) -> Floats:
    each = [compute_reward(*row) for row in zip(achieved, desired, infos, strict=True)]
    return np.array([np.asarray(reward, dtype=np.float64).reshape(()) for reward in each])


def _copies(infos: Sequence[dict]) -> list[dict]:
    return [deepcopy(info) for info in infos]


def goal_independent_part(stored: Floats, goal_rewards: Floats, sparse_values: Sequence[float] = ()) -> Floats:
    """Return the part of the stored rewards that ``compute_reward`` does not explain; 0 where it explains all.

    A stored reward that equals one of a sparse reward's two values has no goal-independent part. If ``compute_reward``
    returns the other value, it was given a different goal (rounded to float32, or moved in the same step).

    :param stored: (n,) rewards from the environment's ``step``.
    :param goal_rewards: (n,) ``compute_reward`` of the same transitions and their original goals.
    :param sparse_values: the two values of a sparse ``compute_reward``; empty: it is not known to be sparse.
    """
    tolerance = ROUNDING * np.maximum(1.0, np.abs(stored))
    part = np.asarray(stored, dtype=np.float64) - goal_rewards
    is_zero = np.abs(part) <= tolerance
    for value in sparse_values:
        is_zero |= np.abs(stored - value) <= tolerance
    return np.where(is_zero, 0.0, part)


class GoalIndependentReward:
    """Computes the goal-independent part of each transition's reward once, and shows each to the done rule.

    :param keep: whether virtual rewards contain that part.
    :param done_rule: observes each transition with its original goal.
    :param compute: ``compute_reward`` for achieved goals, desired goals and infos.
    """

    def __init__(self, keep: bool, done_rule: DoneRule, compute: Callable[[NDArray, NDArray, Any], Floats]) -> None:
        self.keep, self.done_rule, self.compute = keep, done_rule, compute
        # Whether anything depends on the rewards under the original goals.
        self.is_needed = keep or done_rule.mode in ("auto", "success")
        self.reset()

    def reset(self) -> None:
        """Discard everything observed."""
        self.computed: list[int] = []  # per block of the storage: number of transitions processed
        self.done_rule.reset()

    def update(self, storage: Storage) -> None:
        """Process the transitions added since the last call, in batches.

        Afterwards a sample calls ``compute_reward`` for its new goals only.
        """
        if not self.is_needed or self.computed == storage.total:
            return
        computed = self.computed or [0] * len(storage.total)
        self.computed = storage.total.copy()
        new = [storage.held(block, since) for block, since in reversed([*enumerate(computed)])]  # demonstrations first
        ids = np.concatenate(new)
        for start in range(0, len(ids), CHUNK):
            self._process(storage, ids[start : start + CHUNK])

    def _process(self, storage: Storage, ids: Ids) -> None:
        positions = storage.positions(ids)
        rows, after = storage.transitions(ids, positions)
        # Rewards belong to the goal shown after the step; PointMaze may move the goal in a step.
        achieved = storage.achieved_goals(positions)
        infos = None if storage.infos is None else storage.infos[positions]
        goal_rewards = self.compute(achieved, after[GOAL], infos)
        if self.done_rule.exact is None:
            self.done_rule.observe_exact(self.compute(achieved, achieved, infos))
        self.done_rule.observe(goal_rewards, rows["_terminated"])
        part = goal_independent_part(rows["_reward"], goal_rewards, self.done_rule.sparse_values)
        storage.rows["_goal_independent"][positions] = part

    def state(self) -> dict[str, Any]:
        """Return everything observed, as JSON values."""
        return {"computed": self.computed} | self.done_rule.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`state`."""
        self.computed = [int(count) for count in state["computed"]]
        self.done_rule.restore(state)
