"""A wrapper that turns a broken environment into an EnvironmentFault."""

import traceback
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault, UserError

FLOAT32_MAX = float(np.finfo(np.float32).max)
"""Larger numbers become infinite in the replay buffer and the networks."""


class FaultGuard(gym.Wrapper):
    """Raise :class:`EnvironmentFault` when the environment raises or returns values that no agent can learn from.

    Such values are a missing key, a shape other than the declared one, and NaN, infinity or a number beyond float32 in
    an observation or reward.

    :param name: of the environment, for messages.
    """

    def __init__(self, env: gym.Env, name: str) -> None:
        super().__init__(env)
        self._name, self._steps = name, 0
        spaces = self.observation_space.spaces if isinstance(self.observation_space, gym.spaces.Dict) else {}
        self._shapes = {key: space.shape for key, space in spaces.items() if space.shape is not None}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment.

        :raises EnvironmentFault: it raised, or returned an invalid observation.
        """
        self._steps = 0
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except BaseException as error:
            raise self._fault("reset", error) from error
        self._check_observation("reset", observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment.

        :raises EnvironmentFault: it raised, or returned an invalid observation or reward; the message has the number
            of the step within the episode.
        """
        self._steps += 1
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
            reward = float(reward)
        except BaseException as error:
            raise self._fault(f"step {self._steps}", error) from error
        self._check_observation(f"step {self._steps}", observation)
        if not abs(reward) <= FLOAT32_MAX:
            raise EnvironmentFault(f"{self._name}: step {self._steps} of an episode returned a reward of {reward}.")
        return observation, reward, bool(terminated), bool(truncated), info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the environment's reward of goals.

        :raises EnvironmentFault: it raised, or is not finite.
        """
        try:
            reward = self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
            finite = _is_finite(np.asarray(reward, dtype=np.float64)).all()
        except BaseException as error:
            raise self._fault("compute_reward", error) from error
        if not finite:
            raise EnvironmentFault(f"{self._name}: compute_reward returned NaN or infinity.")
        return reward

    def close(self) -> None:
        """Close the environment; an error is only reported, because what was to be done in it is done."""
        try:
            self.env.close()
        except BaseException as error:
            warn(str(self._fault("close", error)))

    def _fault(self, call: str, error: BaseException) -> BaseException:
        of_episode = " of an episode" if call.startswith("step") else ""
        return as_fault(error, f"{self._name}: {call}{of_episode}")

    def _check_observation(self, call: str, observation: Any) -> None:
        if not isinstance(observation, dict):
            raise EnvironmentFault(f"{self._name}: {call} returned a {type(observation).__name__}, not a dict.")
        for key, shape in self._shapes.items():
            if key not in observation:
                raise EnvironmentFault(f"{self._name}: {call} returned an observation without {key!r}.")
            value = np.asarray(observation[key])
            if value.dtype.kind not in "biuf":
                raise EnvironmentFault(f"{self._name}: {call} returned {key!r} of type {value.dtype}, not numbers.")
            if value.shape != shape:
                raise EnvironmentFault(
                    f"{self._name}: {call} returned {key!r} with shape {value.shape}; the declared shape is {shape}."
                )
            if value.dtype.kind == "f" and not (finite := _is_finite(value)).all():
                entry = int(np.flatnonzero(~finite)[0])
                raise EnvironmentFault(f"{self._name}: {call} returned {value.flat[entry]} in {key!r} (entry {entry}).")


def as_fault(error: BaseException, what: str) -> BaseException:
    """Return an exception of an environment's code as an EnvironmentFault: "<what> raised …".

    Ctrl-C, and what is a message already, is returned unchanged. SystemExit is a fault, because the program would end
    with the exit code that the environment chose.
    """
    if isinstance(error, EnvironmentFault | UserError | KeyboardInterrupt):
        return error
    return EnvironmentFault(f"{what} raised {describe_error(error)}.")


def _is_finite(value: np.ndarray) -> np.ndarray:
    """Return which entries are finite in float32."""
    return np.isfinite(value) if value.dtype.itemsize <= 4 else np.abs(value) <= FLOAT32_MAX


def describe_error(error: BaseException) -> str:
    """Return ``"ValueError: message (file.py, line 12)"``, with the last line of the traceback outside of NumPy."""
    stack = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in stack if "/numpy/" not in frame.filename]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = str(error).strip().rstrip(".")
    return f"{type(error).__name__}{': ' + text if text else ''}{where}"
