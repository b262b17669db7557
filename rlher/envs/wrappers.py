"""Wrappers that make a goal environment easier to learn: action repeat, an end after a fall, an offset of rewards.

An exported agent uses a copy of this module, so it imports nothing of rlher.
"""

from typing import Any

import gymnasium as gym


class ActionRepeat(gym.Wrapper):
    """Repeat each action, so that one decision covers several steps of the environment.

    The agent sees the observation and the ``info`` of the last step. A success or crash during an earlier step does not
    count. The reward is the sum over the repeated steps. With ``last_reward`` it is the last step's reward, because
    hindsight needs the reward that ``compute_reward`` returns for the last observation.

    :param times: environment steps per action, fewer if the episode ends before.
    :param last_reward: return the last step's reward in place of the sum.
    """

    def __init__(self, env: gym.Env, times: int, last_reward: bool) -> None:
        super().__init__(env)
        self._times = times
        self._last_reward = last_reward

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step until the action was repeated often enough or the episode ends."""
        total = 0.0
        for _ in range(self._times):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, reward if self._last_reward else total, terminated, truncated, info


class TruncateAfterFall(gym.Wrapper):
    """Truncate an episode soon after its object has fallen off the table, where the robot cannot reach it.

    On FetchPush this happens in half of the training episodes. The steps after it are a quarter of the replay buffer,
    and even more of the virtual goals are on the floor. A few of these steps are kept. Without them the agent would
    not learn the value of states with a fallen object, and would not avoid them.

    :param height: third entry of ``achieved_goal`` below which the object has fallen.
    """

    KEPT_STEPS = 5

    def __init__(self, env: gym.Env, height: float) -> None:
        super().__init__(env)
        self._height = height
        self._fallen_steps = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._fallen_steps = 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and truncate the episode if the object has lain below the table for long enough."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._fallen_steps = self._fallen_steps + 1 if observation["achieved_goal"][2] < self._height else 0
        return observation, reward, terminated, truncated or self._fallen_steps >= self.KEPT_STEPS, info


class RewardOffset(gym.Wrapper):
    """Add a constant to every reward, of ``step`` and of ``compute_reward``.

    Maze rewards are 0 and 1. With -1 and 0 every step away from the goal has a cost, and agents learn sooner.
    """

    def __init__(self, env: gym.Env, offset: float) -> None:
        super().__init__(env)
        self._offset = offset

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step with the shifted reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward) + self._offset, terminated, truncated, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the shifted rewards of goals of any leading shape."""
        return self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info) + self._offset
