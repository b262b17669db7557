"""``compute_reward`` of an environment, called on batches."""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.core.errors import describe_error

Floats = NDArray[np.floating[Any]]

CHECKED_ROWS = 4
"""Rows of the first batch that are also computed one by one, to check that the function is vectorised."""

NOT_VECTORISED = (
    "compute_reward is not vectorised: {}. It is called row by row, which is slow; reduce over the last axis only, as "
    "in np.linalg.norm(achieved_goal - desired_goal, axis=-1)."
)
"""Warning about the result of :func:`batch_problem`."""


class RewardFunction:
    """Calls ``compute_reward(achieved_goal, desired_goal, info)`` on batches, or row by row where necessary.

    A function not written for batches raises, returns the wrong shape (stable-baselines3 #854, #1337), or returns
    wrong rewards. The first call compares some rows with single calls. After any difference every call loops over the
    rows, after one warning.

    :param call: the function, vectorised or not.
    :param from_env: whether it was taken from an environment, and so is not pickled.
    :param is_remote: whether it runs in another process, which must not be in the middle of a step.
    """

    def __init__(self, call: Callable[..., Any], from_env: bool = False, is_remote: bool = False) -> None:
        self.call, self.from_env, self.is_remote = call, from_env, is_remote
        self._vectorised: bool | None = None

    @classmethod
    def of(cls, env: Any) -> "RewardFunction":
        """Return the function of a vectorised environment's first environment.

        In this process it is called directly; in another process through ``env_method``, one message per batch.

        :param env: an SB3 ``VecEnv``. It may have a ``reward_env``, an environment in this process.
        :raises AttributeError: the environment has no ``compute_reward``.
        """
        inner = env
        while hasattr(inner, "venv"):
            inner = inner.venv
        local = inner.envs[0] if hasattr(inner, "envs") else getattr(inner, "reward_env", None)
        if local is not None:
            return cls(local.get_wrapper_attr("compute_reward"), from_env=True)

        def call(achieved: Any, desired: Any, info: Any) -> Any:
            return env.env_method("compute_reward", achieved, desired, info, indices=[0])[0]

        return cls(call, from_env=True, is_remote=True)

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
            self._vectorised = self._is_vectorised(achieved, desired, infos)
        if self._vectorised:
            return np.asarray(self.call(achieved, desired, infos)).reshape(count)
        return _row_by_row(self.call, achieved, desired, infos)

    def _is_vectorised(self, achieved: NDArray, desired: NDArray, infos: Sequence[dict]) -> bool:
        """Return whether the function can be called on batches; warn if it cannot."""
        problem = batch_problem(self.call, achieved[:CHECKED_ROWS], desired[:CHECKED_ROWS], infos[:CHECKED_ROWS])
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
    rewards = [compute_reward(*row) for row in zip(achieved, desired, infos, strict=True)]
    return np.array([np.asarray(reward, dtype=np.float64).reshape(()) for reward in rewards])


def _copies(infos: Sequence[dict]) -> list[dict]:
    return [deepcopy(info) for info in infos]
