"""A goal environment out of a plain one, from two functions.

A package of yours, say ``my_goals.py``, registers the result::

    import gymnasium as gym
    import numpy as np
    from rlher.envs.goal_wrapper import GoalEnvWrapper

    def make(render_mode=None):
        return GoalEnvWrapper(
            gym.make("MountainCarContinuous-v0", render_mode=render_mode),
            goal_of=lambda observation: observation[..., :1],
            reward=lambda achieved, desired: -(np.abs(achieved - desired)[..., 0] > 0.05).astype(np.float32),
            goal_space=gym.spaces.Box(-1.1, 0.4, (1,), np.float32),
        )

    gym.register(id="CarToGoal-v0", entry_point=make, max_episode_steps=200)

and is trained on by its id::

    rlher train algo=sac env=CarToGoal-v0 'env.modules=[my_goals]'
"""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class GoalEnvWrapper(gym.Env[dict[str, Any], Any]):
    """Ask a plain environment for a goal of its own choosing.

    The environment's own reward is dropped. Its own termination is kept, so that an episode may end without
    success; reaching the goal ends it too, unless ``ends_on_success`` is false.

    :param env: environment whose observations are arrays.
    :param goal_of: from an observation to the goal it achieves, an array of ``goal_space``'s shape
        (cpprb's ``goal_func``).
    :param reward: from achieved and desired goals, shape ``(..., goal)``, to rewards of shape ``(...)``
        (cpprb's ``reward_func``). It must take batches, that is, reduce over the last axis only.
    :param goal_space: where goals lie.
    :param draw_goal: from a NumPy generator to an episode's goal; ``None``: uniform in ``goal_space``.
    :param success_reward: reward from which on the goal counts as reached.
    :param ends_on_success: whether reaching the goal ends the episode.
    :raises ValueError: observations are not arrays, or no ``draw_goal`` and unbounded goals.
    """

    def __init__(
        self,
        env: gym.Env,
        goal_of: Callable[[np.ndarray], np.ndarray],
        reward: Callable[[np.ndarray, np.ndarray], Any],
        goal_space: spaces.Box,
        draw_goal: Callable[[np.random.Generator], np.ndarray] | None = None,
        success_reward: float = 0.0,
        ends_on_success: bool = True,
    ) -> None:
        if not isinstance(env.observation_space, spaces.Box):
            raise ValueError(f"observations must be arrays (a Box), not {env.observation_space}")
        if draw_goal is None and not goal_space.is_bounded():
            raise ValueError(f"goals cannot be drawn uniformly from {goal_space}: give draw_goal")
        self.env, self.goal_of, self.reward, self.goal_space = env, goal_of, reward, goal_space
        self.draw_goal = draw_goal or self._uniform
        self.success_reward, self.ends_on_success = success_reward, ends_on_success
        self.metadata, self.render_mode = env.metadata, env.render_mode
        self.action_space = env.action_space
        self.observation_space: Any = spaces.Dict(
            observation=env.observation_space, achieved_goal=goal_space, desired_goal=goal_space
        )
        self._goals = np.random.default_rng()
        self._goal = np.zeros(goal_space.shape, dtype=goal_space.dtype)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reset, and draw a goal. ``options={"desired_goal": ...}`` gives one instead."""
        super().reset(seed=seed)
        if seed is not None:
            # A stream beside the environment's: with the same one, goal and start would be correlated.
            self._goals = np.random.default_rng([seed, 1])
        options = dict(options or {})
        given = options.pop("desired_goal", None)
        observation, info = self.env.reset(seed=seed, options=options or None)
        goal = self.draw_goal(self._goals) if given is None else given
        self._goal = np.asarray(goal, dtype=self.goal_space.dtype)
        return self._with_goals(observation), info

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Step; the reward is that of the goals."""
        plain, _, terminated, truncated, info = self.env.step(action)
        observation = self._with_goals(plain)
        reward = float(self.compute_reward(observation["achieved_goal"], self._goal, info))
        success = reward >= self.success_reward
        ended = terminated or (success and self.ends_on_success)
        return observation, reward, ended, truncated, {**info, "is_success": success}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return the rewards of goals of shape ``(..., goal)``: shape ``(...)``."""
        return np.asarray(self.reward(achieved_goal, desired_goal))

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return whether reaching these goals would end an episode: bool, shape ``(...)``."""
        reached = self.compute_reward(achieved_goal, desired_goal, info) >= self.success_reward
        return reached & self.ends_on_success

    def render(self) -> Any:
        """Render the plain environment."""
        return self.env.render()

    def close(self) -> None:
        """Close the plain environment."""
        self.env.close()

    def _with_goals(self, observation: np.ndarray) -> dict[str, Any]:
        achieved = np.asarray(self.goal_of(observation), dtype=self.goal_space.dtype)
        return {"observation": observation, "achieved_goal": achieved, "desired_goal": self._goal.copy()}

    def _uniform(self, generator: np.random.Generator) -> np.ndarray:
        return generator.uniform(self.goal_space.low, self.goal_space.high)
