"""Success, crashes and diagnostics of training episodes in ``info``."""

from typing import Any

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError
from rlher.envs.checked_env import CheckedEnv
from rlher.her.reward_and_done import is_success_reward

SUCCESS_KEYS = ("is_success", "success")
"""Fetch, Hand, Panda and parking use the first key, the mazes the second; Stable-Baselines3 reads the first only."""

OBJECT_MOVED = "object_moved"
SUCCESS_AT_RESET = "success_at_reset"
EPISODE_DIAGNOSTICS = (OBJECT_MOVED, SUCCESS_AT_RESET)


class RecordEpisodeInfo(CheckedEnv):
    """Add ``is_success`` to every ``info``. If there is a crash key, add ``is_crash`` to the ``info`` of every step.

    After a step, ``is_success`` is the value of ``config.success_key`` in ``info``. If that key is null, the first of
    ``SUCCESS_KEYS`` that is in ``info`` is used. If ``info`` has no such key either, the step is a success if
    ``compute_reward`` is at least ``config.success_reward``.

    After a reset, many environments leave their key out. So ``is_success`` is whether ``compute_reward`` is at least
    ``config.success_reward``. If that is null, ``is_success`` is the value of the key, or False without a key.

    With ``diagnostics``, ``info`` also has two values that show why an agent does not learn:

    - ``object_moved``: whether the achieved goal has moved since the reset by more than the success radius. If not,
      every virtual goal for the object is reached without doing anything, so hindsight has nothing to learn from.
    - ``success_at_reset``: whether the goal was reached before the first step. Such a success does not count for the
      agent.

    :param config: config of the environment; its ``success_key``, ``crash_key`` and ``success_reward`` are used.
    :param diagnostics: whether to add the two values. They need ``config.success_reward``.
    """

    def __init__(self, env: gym.Env, config: EnvConfig, diagnostics: bool = False) -> None:
        super().__init__(env, config.id)
        self._config = config
        self._success_keys = SUCCESS_KEYS if config.success_key is None else (config.success_key,)
        self._diagnostics = diagnostics
        crash = ("is_crash",) if config.crash_key is not None else ()
        self.step_keys = ("is_success", *crash, *(EPISODE_DIAGNOSTICS if diagnostics else ()))
        """The keys that this wrapper adds to the ``info`` of each step."""
        self._start: Any = None
        self._moved = self._at_reset = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, and add to ``info`` whether the goal is reached already.

        :raises RunError: the environment raised, or returned an invalid observation.
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

        :raises RunError: the environment failed; or an episode ended, and it is unknown whether it was a success; or a
            value is neither true nor false, such as NaN, which ``bool`` converts to True.
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
            info["is_crash"] = as_bool(info.get(self._config.crash_key), self._config.crash_key, self._config.id)
        if self._diagnostics:
            self._moved = self._moved or not self._is_reached(observation["achieved_goal"], self._start, info)
            info |= {OBJECT_MOVED: self._moved, SUCCESS_AT_RESET: self._at_reset}
        return observation, reward, terminated, truncated, info

    def _success_in(self, info: dict[str, Any]) -> bool | None:
        """Return the value of the first success key in ``info``, None if ``info`` has no such key."""
        key = next((key for key in self._success_keys if key in info), None)
        return None if key is None else as_bool(info[key], key, self._config.id)

    def _is_reached(self, achieved_goal: Any, desired_goal: Any, info: dict[str, Any]) -> bool:
        success_reward: Any = self._config.success_reward
        return bool(is_success_reward(self.compute_reward(achieved_goal, desired_goal, info), success_reward))


def as_bool(value: Any, key: str, env_name: str) -> bool:
    """Return a value of ``info`` as bool; None counts as False.

    :raises RunError: the value is not a single number, or is NaN.
    """
    if isinstance(value, bool | np.bool_) or value is None:
        return bool(value)
    number = np.asarray(value)
    if number.size != 1 or number.dtype.kind not in "biuf" or np.isnan(number).any():
        raise RunError(f"{env_name}: info[{key!r}] is {value!r}, which is neither true nor false.")
    return bool(number)
