"""A wrapper that puts ``is_success`` and ``is_crash`` into ``info``, whatever keys the environment uses."""

from typing import Any

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault

SUCCESS_KEYS = ("is_success", "success")
"""Fetch, Hand, Panda and parking use the first key, the mazes the second; Stable-Baselines3 reads the first only."""


class SuccessInfo(gym.Wrapper):
    """Put ``is_success`` into every ``info``, and ``is_crash`` if there is a crash key.

    Success is the value of ``cfg.success_key``; if that is null, of the first of ``SUCCESS_KEYS`` in ``info``; if
    there is none, whether ``compute_reward`` is at least ``cfg.success_reward``.

    :param cfg: its ``success_key``, ``crash_key`` and ``success_reward`` are used.
    """

    def __init__(self, env: gym.Env, cfg: EnvConfig) -> None:
        super().__init__(env)
        self._cfg = cfg

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and add the keys to ``info``.

        :raises EnvironmentFault: an episode ended, and it is unknown whether it was a success; or a value is neither
            true nor false, such as NaN, which Python takes for true.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        success = self._is_success(observation, info, ended=bool(terminated or truncated))
        # A copy, because some environments return the same dict twice.
        info = {**info, "is_success": success}
        if self._cfg.crash_key is not None:
            info["is_crash"] = as_flag(info.get(self._cfg.crash_key), self._cfg.crash_key, self._cfg.id)
        return observation, reward, terminated, truncated, info

    def _is_success(self, observation: Any, info: dict[str, Any], ended: bool) -> bool:
        keys = SUCCESS_KEYS if self._cfg.success_key is None else (self._cfg.success_key,)
        for name in keys:
            if name in info:
                return as_flag(info[name], name, self._cfg.id)
        if self._cfg.success_key is None and self._cfg.success_reward is not None:
            compute_reward = self.get_wrapper_attr("compute_reward")
            reward = compute_reward(observation["achieved_goal"], observation["desired_goal"], info)
            return bool(reward >= self._cfg.success_reward)
        if not ended:  # some environments set the key at the end of an episode only
            return False
        raise EnvironmentFault(
            f"{self._cfg.id}: an episode ended, but `info` has no {' or '.join(map(repr, keys))} "
            f"(only {', '.join(map(repr, info)) or 'nothing'}); set env.success_key or env.success_reward."
        )


def as_flag(value: Any, key: str, name: str = "the environment") -> bool:
    """Return a value of ``info`` as bool; None counts as False.

    :param name: of the environment, for the message.
    :raises EnvironmentFault: it is not one number, or NaN.
    """
    if isinstance(value, bool | np.bool_) or value is None:
        return bool(value)
    number = np.asarray(value)
    if number.size != 1 or number.dtype.kind not in "biuf" or np.isnan(number).any():
        raise EnvironmentFault(f"{name}: info[{key!r}] is {value!r}, which is neither true nor false.")
    return bool(number)
