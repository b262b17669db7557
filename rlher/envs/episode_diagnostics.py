"""Two facts of a training episode that show why nothing is learnt: object moved, success at reset."""

from typing import Any

import gymnasium as gym
import numpy as np

OBJECT_MOVED = "object_moved"
SUCCESS_AT_RESET = "success_at_reset"
EPISODE_DIAGNOSTICS = (OBJECT_MOVED, SUCCESS_AT_RESET)


class EpisodeDiagnostics(gym.Wrapper):
    """Put ``object_moved`` and ``success_at_reset`` into the ``info`` of every step.

    ``object_moved``: whether the achieved goal has moved since the reset by more than the success radius. While it is
    False, every virtual goal for the object is reached without doing anything: hindsight has nothing to learn from.
    ``success_at_reset``: whether the goal was reached before the first step, which no agent can take credit for.

    :param success_reward: ``compute_reward`` at or above which a goal counts as reached.
    """

    def __init__(self, env: gym.Env, success_reward: float) -> None:
        super().__init__(env)
        self._success_reward = success_reward
        self._start: Any = None
        self._moved = self._at_reset = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and compare the first achieved goal with the desired one."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._start, self._moved = np.copy(observation["achieved_goal"]), False
        self._at_reset = self._reached(self._start, observation["desired_goal"], info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and note whether the achieved goal has moved."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._moved = self._moved or not self._reached(observation["achieved_goal"], self._start, info)
        info = {**info, OBJECT_MOVED: self._moved, SUCCESS_AT_RESET: self._at_reset}
        return observation, reward, terminated, truncated, info

    def _reached(self, achieved_goal: Any, desired_goal: Any, info: dict[str, Any]) -> bool:
        reward = self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
        return bool(reward >= self._success_reward)
