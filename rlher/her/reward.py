"""``compute_reward`` of the environment, wherever it runs and however it was written."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rewards = NDArray[np.floating[Any]]

CHECKED = 4
"""Rows of the first batch that are also computed one by one, to tell whether batches can be trusted."""


class RewardFunction:
    """Calls ``compute_reward(achieved_goal, desired_goal, info)`` on batches, or row by row where it must.

    A function not written for batches raises, returns the wrong shape (stable-baselines3 #854, #1337), or
    silently returns something else; the first call compares some rows with single calls, and on any
    difference every later call loops, after one warning.

    :param call: the function, vectorised or not.
    :param of_env: whether it was taken from an environment, and so is not to be pickled.
    """

    def __init__(self, call: Callable[..., Any], of_env: bool = False) -> None:
        self.call, self.of_env = call, of_env
        self._vectorised: bool | None = None

    @classmethod
    def of(cls, env: Any) -> "RewardFunction":
        """Return the function of a vectorised environment's first environment.

        In this process it is called directly; in another process through ``env_method``, one message a batch.

        :param env: an SB3 ``VecEnv``.
        :raises AttributeError: the environment has no ``compute_reward``.
        """
        inner = env
        while hasattr(inner, "venv"):
            inner = inner.venv
        if hasattr(inner, "envs"):
            return cls(inner.envs[0].get_wrapper_attr("compute_reward"), of_env=True)

        def remote(achieved: Any, desired: Any, info: Any) -> Any:
            return env.env_method("compute_reward", achieved, desired, info, indices=[0])[0]

        return cls(remote, of_env=True)

    def __call__(self, achieved: NDArray, desired: NDArray, infos: Sequence[dict] | None = None) -> Rewards:
        """Return the (n,) rewards of n pairs of goals.

        :param achieved: (n, …) achieved goals, raw (not normalised).
        :param desired: (n, …) desired goals, raw.
        :param infos: n info dictionaries; None: empty ones.
        """
        count = len(achieved)
        if count == 0:
            return np.zeros(0)
        infos = [{}] * count if infos is None else infos
        if self._vectorised is None:
            self._vectorised = self._check(achieved, desired, infos)
        if self._vectorised:
            return np.asarray(self.call(achieved, desired, infos)).reshape(count)
        return self._loop(achieved, desired, infos)

    def _loop(self, achieved: NDArray, desired: NDArray, infos: Sequence[dict]) -> Rewards:
        each = [self.call(a, d, i) for a, d, i in zip(achieved, desired, infos, strict=True)]
        return np.array([np.asarray(reward, dtype=np.float64).reshape(()) for reward in each])

    def _check(self, achieved: NDArray, desired: NDArray, infos: Sequence[dict]) -> bool:
        rows = [row % len(achieved) for row in range(max(2, min(len(achieved), CHECKED)))]
        some = achieved[rows], desired[rows], [infos[row] for row in rows]
        try:
            together = np.asarray(self.call(*some), dtype=np.float64).reshape(len(rows))
        except Exception as error:
            reason = f"it raised {type(error).__name__}: {error}"
        else:
            try:
                single = self._loop(*some)
            except Exception:
                return True  # written for batches alone
            if np.allclose(together, single, rtol=1e-4, atol=1e-6, equal_nan=True):
                return True
            reason = "it returned other rewards than one by one"
        warnings.warn(
            f"compute_reward is not vectorised ({reason}): it is called row by row, which is slow. "
            "Reduce over the last axis only, as in np.linalg.norm(achieved_goal - desired_goal, axis=-1).",
            stacklevel=2,
        )
        return False
