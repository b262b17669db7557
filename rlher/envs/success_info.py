"""One name for success and one for a crash, whatever the environment calls them."""

from typing import Any

import gymnasium as gym

from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault

# Fetch, Hand, Panda and parking say the first, the mazes the second; Stable-Baselines3 reads only the first.
SUCCESS_KEYS = ("is_success", "success")


class Outcome(gym.Wrapper):
    """Put ``is_success``, and ``is_crash`` where there is a crash key, into every ``info``.

    Without ``cfg.success_key`` the usual keys are looked for, and without those a reward of at least
    ``cfg.success_reward`` counts as success.

    :param env: a goal environment.
    :param cfg: its ``success_key``, ``crash_key`` and ``success_reward`` are used.
    """

    def __init__(self, env: gym.Env, cfg: EnvConfig) -> None:
        super().__init__(env)
        self._cfg = cfg

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and name the outcome.

        :raises EnvironmentFault: an episode ended and nothing says whether it was a success.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        success = self._success(observation, info, over=bool(terminated or truncated))
        # A copy, because environments have been seen to hand out the same dict twice.
        info = {**info, "is_success": success}
        if self._cfg.crash_key is not None:
            info["is_crash"] = bool(info.get(self._cfg.crash_key, False))
        return observation, reward, terminated, truncated, info

    def _success(self, observation: Any, info: dict[str, Any], over: bool) -> bool:
        keys = SUCCESS_KEYS if self._cfg.success_key is None else (self._cfg.success_key,)
        for name in keys:
            if name in info:
                return bool(info[name])
        if self._cfg.success_key is None and self._cfg.success_reward is not None:
            compute_reward = self.get_wrapper_attr("compute_reward")
            reward = compute_reward(observation["achieved_goal"], observation["desired_goal"], info)
            return bool(reward >= self._cfg.success_reward)
        if not over:  # some environments speak up only at the end
            return False
        raise EnvironmentFault(
            f"{self._cfg.id}: an episode ended and `info` has no {' or '.join(map(repr, keys))} "
            f"(it has {', '.join(map(repr, info)) or 'nothing'}); set env.success_key or env.success_reward."
        )
