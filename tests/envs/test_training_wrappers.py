"""Action repeat and reward offset in training; evaluation keeps the environment's own rewards."""

import gymnasium as gym
import numpy as np
import pytest

from rlher.config.environment import EnvConfig
from rlher.envs.make import make_env
from rlher.envs.training_wrappers import ActionRepeat, RewardOffset


class Counter(gym.Env):
    """Returns the number of the step as reward; ends after seven steps."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps), float(self.steps), self.steps == 7, False, {"step": self.steps}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.asarray(achieved_goal).sum(axis=-1)


@pytest.mark.parametrize(("last_reward", "rewards"), [(False, [6.0, 15.0, 7.0]), (True, [3.0, 6.0, 7.0])])
def test_repeats_until_the_episode_ends(last_reward: bool, rewards: list[float]):
    env = ActionRepeat(Counter(), 3, last_reward)
    env.reset()
    steps = [env.step(np.zeros(1)) for _ in range(3)]
    assert [reward for _, reward, *_ in steps] == rewards
    assert [info["step"] for *_, info in steps] == [3, 6, 7]
    assert [terminated for _, _, terminated, _, _ in steps] == [False, False, True]


def test_offset_shifts_step_and_compute_reward_alike():
    env = RewardOffset(Counter(), -1.0)
    env.reset()
    observation, reward, *_ = env.step(np.zeros(1))
    assert reward == env.compute_reward(observation, None, {}) == 0.0
    batch = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(env.compute_reward(batch, None, {}), batch.sum(axis=1) - 1)


@pytest.mark.parametrize(("training", "expected"), [(True, {-1.0, 0.0}), (False, {0.0, 1.0})])
def test_a_maze_has_shifted_rewards_in_training_only(training: bool, expected: set[float]):
    config = EnvConfig(
        id="PointMaze_Open-v3", success_key="success", success_reward=1.0, reward_range=[0.0, 1.0], reward_offset=-1.0
    )
    env = make_env(config, training=training)
    observation, _ = env.reset(seed=0)
    goal = observation["desired_goal"]
    reward = env.get_wrapper_attr("compute_reward")
    assert {float(reward(goal, goal, {})), float(reward(goal + 10, goal, {}))} == expected
    assert env.step(env.action_space.sample())[1] in expected
    assert (config.training_success_reward, config.training_reward_range) == (0.0, [-1.0, 0.0])
    env.close()
