"""The example of rlher.envs.goal_wrapper's documentation, as a user's module."""

import gymnasium as gym
import numpy as np

from rlher.envs.goal_wrapper import GoalEnvWrapper


def draw_goal(picture, goal):
    column = int((goal[0] + 1.2) / 1.8 * picture.shape[1])  # positions are from -1.2 to 0.6
    picture[:, column - 1 : column + 2] = (200, 30, 30)
    return picture


def make(render_mode=None):
    return GoalEnvWrapper(
        gym.make("MountainCarContinuous-v0", render_mode=render_mode),
        goal_of=lambda observation: observation[..., :1],
        reward=lambda achieved, desired: -(np.abs(achieved - desired)[..., 0] > 0.05).astype(np.float32),
        goal_space=gym.spaces.Box(-1.1, 0.4, (1,), np.float32),
        render_goal=draw_goal,
    )


gym.register(id="CarToGoal-v0", entry_point=make, max_episode_steps=200)
