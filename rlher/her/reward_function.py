"""``compute_reward`` of an environment, called on batches."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.core.errors import describe_error

Floats = NDArray[np.floating[Any]]

CHECKED_ROWS = 4
"""Number of rows of the first batch that are also computed one by one, to check that the function is vectorised."""

NOT_VECTORISED = (
    "compute_reward is not vectorised: {}. It is called row by row, which is slow; reduce over the last axis only, as "
    "in np.linalg.norm(achieved_goal - desired_goal, axis=-1)."
)
"""Warning about the result of :func:`batch_problem`."""


class RewardFunction:
    """Calls ``compute_reward(achieved_goal, desired_goal, info)`` on batches, or row by row where necessary.

    A function that was not written for batches raises, returns the wrong shape (stable-baselines3 #854, #1337), or
    returns wrong rewards. The first call compares some rows with single calls. If they differ, it warns once, and every
    call loops over the rows.

    :param compute_reward: the method of an environment, or a function with the same arguments.
    """

    def __init__(self, compute_reward: Callable[..., Any]) -> None:
        self.compute_reward = compute_reward
        self._is_vectorised: bool | None = None  # unknown before the first call

    def __call__(self, achieved: NDArray, desired: NDArray) -> Floats:
        """Return the (n,) rewards of n pairs of goals; the function gets empty infos.

        :param achieved: (n, …) achieved goals, raw (not normalised), at least one.
        :param desired: (n, …) desired goals, raw.
        """
        if self._is_vectorised is None:
            problem = batch_problem(self.compute_reward, achieved[:CHECKED_ROWS], desired[:CHECKED_ROWS])
            self._is_vectorised = problem is None
            if problem is not None:
                warnings.warn(NOT_VECTORISED.format(problem), stacklevel=2)
        if self._is_vectorised:
            return np.asarray(self.compute_reward(achieved, desired, [{}] * len(achieved))).reshape(len(achieved))
        return _row_by_row(self.compute_reward, achieved, desired)


def batch_problem(compute_reward: Callable[..., Any], achieved: NDArray, desired: NDArray) -> str | None:
    """Return what ``compute_reward`` does wrong on a batch of goals, None if it returns the rewards of single calls."""
    count = max(2, len(achieved))
    while count in achieved.shape[1:]:  # so that a reduction over the wrong axis returns another shape
        count += 1
    rows = np.arange(count) % len(achieved)
    achieved, desired = achieved[rows], desired[rows]
    try:
        together = np.asarray(compute_reward(achieved, desired, [{}] * count), dtype=np.float64)
    except Exception as error:
        return f"a batch of goals raises {describe_error(error.__cause__ or error)}"
    try:
        single = _row_by_row(compute_reward, achieved, desired)
    except Exception:
        return None  # takes batches only
    if together.size != count:
        return f"a batch of {count} goals gives shape {together.shape} instead of ({count},)"
    if not np.allclose(together.reshape(count), single, rtol=1e-4, atol=1e-6, equal_nan=True):
        return f"a batch gives {together.reshape(count)}, its rows alone give {single}"
    return None


def _row_by_row(compute_reward: Callable[..., Any], achieved: NDArray, desired: NDArray) -> Floats:
    rewards = [compute_reward(*goals, {}) for goals in zip(achieved, desired, strict=True)]
    return np.array([np.asarray(reward, dtype=np.float64).reshape(()) for reward in rewards])
