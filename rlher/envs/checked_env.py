"""A wrapper that reports the faults of an environment as messages."""

from math import isfinite
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.core.console import warn
from rlher.core.errors import ReportedError, RunError, as_run_error


class CheckedEnv(gym.Wrapper):
    """Raise :class:`RunError` when the environment raises or returns values that no agent can learn from.

    Such values are a missing key, a shape other than the declared shape, and NaN or infinity in an observation or
    reward.

    :param name: name of the environment, for messages.
    """

    def __init__(self, env: gym.Env, name: str) -> None:
        super().__init__(env)
        self.name = name
        self._steps = 0
        spaces = self.observation_space.spaces if isinstance(self.observation_space, gym.spaces.Dict) else {}
        self._shapes = {key: space.shape for key, space in spaces.items() if space.shape is not None}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment.

        :raises RunError: the environment raised, or returned an invalid observation.
        """
        self._steps = 0
        with as_run_error(f"{self.name}: reset"):
            observation, info = self.env.reset(seed=seed, options=options)
        self._check_observation("reset", observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment.

        :raises RunError: the environment raised, or returned an invalid observation or reward. The message contains the
            number of the step within the episode.
        """
        self._steps += 1
        with as_run_error(f"{self.name}: step {self._steps} of an episode"):
            observation, reward, terminated, truncated, info = self.env.step(action)
            reward = float(reward)
        self._check_observation(f"step {self._steps}", observation)
        if not isfinite(reward):
            raise RunError(f"{self.name}: step {self._steps} of an episode returned a reward of {reward}.")
        return observation, reward, bool(terminated), bool(truncated), info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the environment's ``compute_reward``.

        :raises RunError: ``compute_reward`` raised, or returned a reward that is not finite.
        """
        with as_run_error(f"{self.name}: compute_reward"):
            reward = self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
            finite = np.isfinite(reward).all()
        if not finite:
            raise RunError(f"{self.name}: compute_reward returned NaN or infinity.")
        return reward

    def close(self) -> None:
        """Close the environment. Warn about an error instead of raising it, because all episodes are over."""
        try:
            with as_run_error(f"{self.name}: close"):
                self.env.close()
        except ReportedError as error:
            warn(str(error))

    def _check_observation(self, call: str, observation: Any) -> None:
        if not isinstance(observation, dict):
            raise RunError(f"{self.name}: {call} returned a {type(observation).__name__}, not a dict.")
        for key, shape in self._shapes.items():
            value = np.asarray(observation.get(key))
            if value.shape != shape or value.dtype.kind not in "biuf":
                returned = f"{value.dtype} of shape {value.shape}" if key in observation else "nothing"
                raise RunError(
                    f"{self.name}: {call} returned {returned} as {key!r}; it must have numbers of shape {shape}."
                )
            if value.dtype.kind == "f" and not (finite := np.isfinite(value)).all():
                raise RunError(f"{self.name}: {call} returned {value[~finite][0]} in {key!r}.")
