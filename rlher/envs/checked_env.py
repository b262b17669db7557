"""The wrappers of every goal environment: faults as messages; success and facts on training episodes in ``info``."""

from math import isfinite
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.console import warn
from rlher.core.errors import ReportedError, RunError, run_errors_of

SUCCESS_KEYS = ("is_success", "success")
"""Fetch, Hand, Panda and parking use the first key, the mazes the second; Stable-Baselines3 reads the first only."""

OBJECT_MOVED = "object_moved"
SUCCESS_AT_RESET = "success_at_reset"
EPISODE_DIAGNOSTICS = (OBJECT_MOVED, SUCCESS_AT_RESET)


class CheckedEnv(gym.Wrapper):
    """Raise :class:`RunError` when the environment raises or returns values that no agent can learn from.

    Such values are a missing key, a shape other than the declared one, and NaN or infinity in an observation or reward.

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

        :raises RunError: it raised, or returned an invalid observation.
        """
        self._steps = 0
        with run_errors_of(f"{self.name}: reset"):
            observation, info = self.env.reset(seed=seed, options=options)
        self._check_observation("reset", observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment.

        :raises RunError: it raised, or returned an invalid observation or reward; the message has the number
            of the step within the episode.
        """
        self._steps += 1
        with run_errors_of(f"{self.name}: step {self._steps} of an episode"):
            observation, reward, terminated, truncated, info = self.env.step(action)
            reward = float(reward)
        self._check_observation(f"step {self._steps}", observation)
        if not isfinite(reward):
            raise RunError(f"{self.name}: step {self._steps} of an episode returned a reward of {reward}.")
        return observation, reward, bool(terminated), bool(truncated), info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the environment's reward of goals.

        :raises RunError: it raised, or is not finite.
        """
        with run_errors_of(f"{self.name}: compute_reward"):
            reward = self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
            finite = np.isfinite(reward).all()
        if not finite:
            raise RunError(f"{self.name}: compute_reward returned NaN or infinity.")
        return reward

    def close(self) -> None:
        """Close the environment; warn of an error instead of raising it, because all episodes are over."""
        try:
            with run_errors_of(f"{self.name}: close"):
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


class StandardInfo(CheckedEnv):
    """Put ``is_success`` into every ``info``, and ``is_crash`` into that of every step if there is a crash key.

    After a step, success is the value of ``config.success_key`` in ``info``. If that key is null, success is the value
    of the first of ``SUCCESS_KEYS`` in ``info``; if there is none, whether ``compute_reward`` is at least
    ``config.success_reward``. After a reset, ``compute_reward`` comes first, because many environments leave their
    success key out there.

    With ``diagnostics``, ``info`` also has two facts that show why nothing is learnt. ``object_moved``: whether the
    achieved goal has moved since the reset by more than the success radius. While it is False, every virtual goal for
    the object is reached without doing anything: hindsight has nothing to learn from. ``success_at_reset``: whether the
    goal was reached before the first step, which no agent can take credit for.

    :param config: its ``success_key``, ``crash_key`` and ``success_reward`` are used.
    :param diagnostics: whether to add the two facts; they need ``config.success_reward``.
    """

    def __init__(self, env: gym.Env, config: EnvConfig, diagnostics: bool = False) -> None:
        super().__init__(env, config.id)
        self._config = config
        self._success_keys = SUCCESS_KEYS if config.success_key is None else (config.success_key,)
        self._diagnostics = diagnostics
        self._start: Any = None
        self._moved = self._at_reset = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, and add to ``info`` whether the goal is reached already.

        :raises RunError: it raised, or returned an invalid observation.
        """
        observation, info = super().reset(seed=seed, options=options)
        self._start = np.copy(observation["achieved_goal"])
        self._moved = False
        if self._config.success_reward is not None:
            self._at_reset = self._is_reached(self._start, observation["desired_goal"], info)
        else:
            self._at_reset = bool(self._success_in(info))
        return observation, {**info, "is_success": self._at_reset}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment and add the keys to ``info``.

        :raises RunError: it failed; an episode ended, and it is unknown whether it was a success; or a value is
            neither true nor false, such as NaN, which Python takes for true.
        """
        observation, reward, terminated, truncated, info = super().step(action)
        success = self._success_in(info)
        if success is None and self._config.success_key is None and self._config.success_reward is not None:
            success = self._is_reached(observation["achieved_goal"], observation["desired_goal"], info)
        if success is None and (terminated or truncated):  # some environments set the key only here
            raise RunError(
                f"{self._config.id}: an episode ended, but `info` has no {' or '.join(map(repr, self._success_keys))} "
                f"(only {', '.join(map(repr, info)) or 'nothing'}); set env.success_key or env.success_reward."
            )
        # A copy, because some environments return the same dict twice.
        info = {**info, "is_success": bool(success)}
        if self._config.crash_key is not None:
            info["is_crash"] = as_flag(info.get(self._config.crash_key), self._config.crash_key, self._config.id)
        if self._diagnostics:
            self._moved = self._moved or not self._is_reached(observation["achieved_goal"], self._start, info)
            info |= {OBJECT_MOVED: self._moved, SUCCESS_AT_RESET: self._at_reset}
        return observation, reward, terminated, truncated, info

    def _success_in(self, info: dict[str, Any]) -> bool | None:
        """Return the value of the first success key in ``info``; None: it has none."""
        key = next((key for key in self._success_keys if key in info), None)
        return None if key is None else as_flag(info[key], key, self._config.id)

    def _is_reached(self, achieved_goal: Any, desired_goal: Any, info: dict[str, Any]) -> bool:
        return bool(self.compute_reward(achieved_goal, desired_goal, info) >= self._config.success_reward)


def as_flag(value: Any, key: str, env_name: str) -> bool:
    """Return a value of ``info`` as bool; None counts as False.

    :raises RunError: it is not one number, or NaN.
    """
    if isinstance(value, bool | np.bool_) or value is None:
        return bool(value)
    number = np.asarray(value)
    if number.size != 1 or number.dtype.kind not in "biuf" or np.isnan(number).any():
        raise RunError(f"{env_name}: info[{key!r}] is {value!r}, which is neither true nor false.")
    return bool(number)
