"""A wrapper that turns a plain environment into a goal environment, given two functions.

docs/guide/environments.md has an example that registers such an environment in a user's module and trains on it.
"""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlher.her.reward_and_done import is_success_reward


class GoalEnvWrapper(gym.Wrapper):
    """A plain environment with an achieved and a desired goal in its observations.

    ``reward`` computes the rewards; the environment's own rewards are ignored. The environment may still terminate an
    episode without success. Reaching the goal also ends the episode, unless ``ends_on_success`` is False.

    :param env: environment with a ``Box`` of observations.
    :param goal_of: function from an observation to its achieved goal, of ``goal_space``'s shape (cpprb's
        ``goal_func``).
    :param reward: function from achieved and desired goals ``(..., goal)`` to rewards ``(...)`` (``reward_func`` of
        cpprb). It must take batches, so reduce over the last axis only.
    :param goal_space: space of the goals.
    :param sample_goal: function from a NumPy generator to an episode's goal. If None, goals are uniform in
        ``goal_space``.
    :param success_reward: reward at or above which the goal counts as reached.
    :param ends_on_success: whether reaching the goal ends the episode.
    :param render_goal: function that draws the goal. It gets a picture, (height, width, 3) of uint8, and the desired
        goal, and returns a picture. It may draw into its first argument. If None, videos do not show the goal.
    :raises ValueError: observations are not a ``Box``, or goals are unbounded and there is no ``sample_goal``.
    """

    def __init__(
        self,
        env: gym.Env,
        goal_of: Callable[[np.ndarray], np.ndarray],
        reward: Callable[[np.ndarray, np.ndarray], Any],
        goal_space: spaces.Box,
        sample_goal: Callable[[np.random.Generator], np.ndarray] | None = None,
        success_reward: float = 0.0,
        ends_on_success: bool = True,
        render_goal: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        if not isinstance(env.observation_space, spaces.Box):
            raise ValueError(f"the observation space must be a Box, not {env.observation_space}")
        if sample_goal is None and not goal_space.is_bounded():
            raise ValueError(f"goals cannot be drawn uniformly from the unbounded {goal_space}; set sample_goal")
        super().__init__(env)
        self.goal_of = goal_of
        self.reward = reward
        self.goal_space = goal_space
        self.sample_goal = sample_goal or (lambda generator: generator.uniform(goal_space.low, goal_space.high))
        self.success_reward = success_reward
        self.ends_on_success = ends_on_success
        self.render_goal = render_goal
        # Achieved goals may lie outside of ``goal_space``. A space of integers cannot be unbounded.
        is_float = np.issubdtype(goal_space.dtype, np.floating)
        achieved = spaces.Box(-np.inf, np.inf, goal_space.shape, goal_space.dtype) if is_float else goal_space
        self.observation_space: Any = spaces.Dict(
            observation=env.observation_space, achieved_goal=achieved, desired_goal=goal_space
        )
        self._goal_rng = np.random.default_rng()
        self._goal = np.zeros(goal_space.shape, dtype=goal_space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, and sample a goal or take it from ``options={"desired_goal": ...}``."""
        if seed is not None:
            # Not the environment's seed: with the same seed, goal and start would be correlated.
            self._goal_rng = np.random.default_rng([seed, 1])
        options = dict(options or {})
        goal = options.pop("desired_goal", None)
        observation, info = self.env.reset(seed=seed, options=options or None)
        goal = self.sample_goal(self._goal_rng) if goal is None else goal
        self._goal = np.asarray(goal, dtype=self.goal_space.dtype)
        return self._with_goals(observation), info

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Step the environment; return the reward for the achieved and the desired goal."""
        plain, _, terminated, truncated, info = self.env.step(action)
        observation = self._with_goals(plain)
        reward = float(self.compute_reward(observation["achieved_goal"], self._goal, info))
        success = bool(is_success_reward(reward, self.success_reward))
        ended = terminated or (success and self.ends_on_success)
        return observation, reward, ended, truncated, {**info, "is_success": success}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return the rewards ``(...)`` of goals ``(..., goal)``."""
        return np.asarray(self.reward(achieved_goal, desired_goal))

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return whether reaching these goals ends an episode, and they are reached: bool, shape ``(...)``."""
        reached = is_success_reward(self.compute_reward(achieved_goal, desired_goal, info), self.success_reward)
        return reached & self.ends_on_success

    def render(self) -> Any:
        """Render the wrapped environment, with the goal if there is a ``render_goal``."""
        picture = self.env.render()
        if self.render_goal is None or self.render_mode != "rgb_array":
            return picture
        return self.render_goal(np.array(picture), self._goal.copy())

    def _with_goals(self, observation: np.ndarray) -> dict[str, Any]:
        achieved = np.asarray(self.goal_of(observation), dtype=self.goal_space.dtype)
        return {"observation": observation, "achieved_goal": achieved, "desired_goal": self._goal.copy()}
