"""``compute_reward`` of the environment, in this process or another, vectorised or not."""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rewards = NDArray[np.floating[Any]]

CHECKED = 4
"""Rows of the first batch that are also computed one by one, to check that the function is vectorised."""


class RewardFunction:
    """Calls ``compute_reward(achieved_goal, desired_goal, info)`` on batches, or row by row where necessary.

    A function not written for batches raises, returns the wrong shape (stable-baselines3 #854, #1337), or returns
    wrong rewards. The first call compares some rows with single calls. After any difference, or a wrong shape in a
    later call, every call loops over the rows, after one warning.

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

    def __call__(self, achieved: NDArray, desired: NDArray, infos: Sequence[dict] | None = None) -> Rewards:
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
            self._vectorised = self._check(achieved, desired, infos)
        if self._vectorised:
            rewards = np.asarray(self.call(achieved, desired, infos))
            if rewards.size == count:
                return rewards.reshape(count)
            self._vectorised = False
            _warn_not_vectorised(f"it returned the shape {rewards.shape} for {count} rows")
        return self._loop(achieved, desired, infos)

    def _loop(self, achieved: NDArray, desired: NDArray, infos: Sequence[dict]) -> Rewards:
        each = [self.call(a, d, i) for a, d, i in zip(achieved, desired, infos, strict=True)]
        return np.array([np.asarray(reward, dtype=np.float64).reshape(()) for reward in each])

    def _check(self, achieved: NDArray, desired: NDArray, infos: Sequence[dict]) -> bool:
        """Return whether the function can be called on batches; warn if it cannot."""
        count = max(2, min(len(achieved), CHECKED))
        while count in achieved.shape[1:]:  # a reduction over the wrong axis must return another shape
            count += 1
        rows = [row % len(achieved) for row in range(count)]
        some, some_infos = (achieved[rows], desired[rows]), [infos[row] for row in rows]
        try:
            together = np.asarray(self.call(*some, _copies(some_infos)), dtype=np.float64).reshape(count)
        except Exception as error:
            reason = f"it raised {type(error).__name__}: {error}"
        else:
            try:
                single = self._loop(*some, _copies(some_infos))
            except Exception:
                return True  # takes batches only
            if np.allclose(together, single, rtol=1e-4, atol=1e-6, equal_nan=True):
                return True
            reason = "its rewards differ from those of single calls"
        _warn_not_vectorised(reason)
        return False


def _copies(infos: Sequence[dict]) -> list[dict]:
    return [deepcopy(info) for info in infos]


def _warn_not_vectorised(reason: str) -> None:
    warnings.warn(
        f"compute_reward is not vectorised ({reason}) and is called row by row, which is slow; "
        "reduce over the last axis only, as in np.linalg.norm(achieved_goal - desired_goal, axis=-1).",
        stacklevel=3,
    )
