"""A broken environment told in a sentence, from this process or from another."""

import traceback
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.core.errors import EnvironmentFault, UserError

FAULT_KEY = "rlher_fault"

LARGEST = float(np.finfo(np.float32).max)
"""What is larger becomes infinite where it is learnt from, in single precision."""


class Guard(gym.Wrapper):
    """Raise :class:`EnvironmentFault` when the environment raises or returns something no agent can learn from.

    That is: a missing key, a shape other than the declared one, NaN or infinity in an observation or reward, or a
    number that single precision takes for infinity.

    :param env: a goal environment.
    :param name: what to call it in the sentence.
    """

    def __init__(self, env: gym.Env, name: str) -> None:
        super().__init__(env)
        self._name, self._steps = name, 0
        spaces = self.observation_space.spaces if isinstance(self.observation_space, gym.spaces.Dict) else {}
        self._shapes = {key: space.shape for key, space in spaces.items() if space.shape is not None}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset.

        :raises EnvironmentFault: what went wrong.
        """
        self._steps = 0
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise self._fault("reset", error) from error
        self._check_observation("reset", observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step.

        :raises EnvironmentFault: what went wrong, and at which step of the episode.
        """
        self._steps += 1
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
            reward = float(reward)
        except Exception as error:
            raise self._fault(f"step {self._steps}", error) from error
        self._check_observation(f"step {self._steps}", observation)
        if not abs(reward) <= LARGEST:
            raise EnvironmentFault(f"{self._name}: step {self._steps} of an episode returned a reward of {reward}.")
        return observation, reward, bool(terminated), bool(truncated), info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Compute the environment's reward.

        :raises EnvironmentFault: it raised, or is not finite.
        """
        try:
            reward = self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
            finite = _finite(np.asarray(reward, dtype=np.float64)).all()
        except Exception as error:
            raise self._fault("compute_reward", error) from error
        if not finite:
            raise EnvironmentFault(f"{self._name}: compute_reward returned NaN or infinity.")
        return reward

    def _fault(self, call: str, error: Exception) -> Exception:
        if isinstance(error, EnvironmentFault | UserError):
            return error
        of_episode = " of an episode" if call.startswith("step") else ""
        return EnvironmentFault(f"{self._name}: {call}{of_episode} raised {describe_error(error)}.")

    def _check_observation(self, call: str, observation: Any) -> None:
        if not isinstance(observation, dict):
            raise EnvironmentFault(f"{self._name}: {call} returned a {type(observation).__name__}, not a dict.")
        for key, shape in self._shapes.items():
            if key not in observation:
                raise EnvironmentFault(f"{self._name}: {call} returned an observation without {key!r}.")
            value = np.asarray(observation[key])
            if value.shape != shape:
                raise EnvironmentFault(
                    f"{self._name}: {call} returned {key!r} of shape {value.shape}, declared was {shape}."
                )
            if value.dtype.kind == "f" and not (finite := _finite(value)).all():
                entry = int(np.flatnonzero(~finite)[0])
                raise EnvironmentFault(f"{self._name}: {call} returned {value.flat[entry]} in {key!r} (entry {entry}).")


def _finite(value: np.ndarray) -> np.ndarray:
    """Tell which entries are finite in single precision."""
    return np.isfinite(value) if value.dtype.itemsize <= 4 else np.abs(value) <= LARGEST


def describe_error(error: BaseException) -> str:
    """Return ``"ValueError: its message (file.py, line 12)"``, the line being where it was raised, NumPy left out."""
    raised_through = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in raised_through if "/numpy/" not in frame.filename]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = str(error).strip().rstrip(".")
    return f"{type(error).__name__}{': ' + text if text else ''}{where}"


class Fault(str):
    """The sentence of a fault as a method's return value, where an exception cannot travel."""


class Reporter(gym.Wrapper):
    """Put the sentence of a fault into ``info[FAULT_KEY]`` instead of raising it.

    A worker process of Stable-Baselines3 that meets an exception prints a traceback and dies, and the main
    process hears nothing but a broken pipe. So the last good observation is returned with the sentence
    beside it; :class:`rlher.envs.vec.GoalVecEnv` raises it where it can be caught.

    :param env: the outermost wrapper of the worker's environment.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self._last = _zeros(env.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, or report."""
        try:
            self._last, info = self.env.reset(seed=seed, options=options)
        except Exception as error:
            return self._last, {FAULT_KEY: sentence(error)}
        return self._last, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step, or report; a reported step never ends the episode, because the worker would then reset."""
        try:
            self._last, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            return self._last, 0.0, False, False, {FAULT_KEY: sentence(error)}
        return self._last, float(reward), terminated, truncated, info

    def get_wrapper_attr(self, name: str) -> Any:
        """Return an attribute of the wrapped environments; a method of it returns a :class:`Fault` where it raises."""
        attribute = super().get_wrapper_attr(name)
        if not callable(attribute):
            return attribute

        def reporting(*args: Any, **kwargs: Any) -> Any:
            try:
                return attribute(*args, **kwargs)
            except Exception as error:
                return Fault(sentence(error, name))

        return reporting


class Unbuilt(gym.Env):
    """Stands in a worker for an environment whose construction failed, and reports that at the first reset.

    :param fault: the sentence to report.
    :param observation_space: of the environment that should be here.
    :param action_space: of the environment that should be here.
    """

    def __init__(self, fault: str, observation_space: gym.Space, action_space: gym.Space) -> None:
        self._fault, self.observation_space, self.action_space = fault, observation_space, action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Report."""
        return _zeros(self.observation_space), {FAULT_KEY: self._fault}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Report."""
        return _zeros(self.observation_space), 0.0, False, False, {FAULT_KEY: self._fault}


def sentence(error: Exception, call: str = "") -> str:
    """Return what to tell a person about ``error``, which ``call`` raised."""
    if isinstance(error, EnvironmentFault | UserError):
        return str(error)
    return f"the environment{f': {call}' if call else ''} raised {describe_error(error)}."


def _zeros(space: gym.Space) -> Any:
    if isinstance(space, gym.spaces.Dict):
        return {key: _zeros(part) for key, part in space.spaces.items()}
    return np.zeros(space.shape or (), dtype=space.dtype)
