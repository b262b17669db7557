"""GoalEnvWrapper turns a plain environment into a goal environment."""

import gymnasium as gym
import numpy as np
import pytest

from rlher.config.environment import EnvConfig
from rlher.envs.contract import check_goal_env
from rlher.envs.goal_wrapper import GoalEnvWrapper
from rlher.envs.make import make_env

CAR = EnvConfig(id="CarToGoal-v0", modules=["goal_mountain_car"])


def test_the_documented_example_passes_the_check_which_finds_its_properties():
    checked = check_goal_env(CAR)
    assert {finding.level for finding in checked.findings} == {"ok"}
    config = checked.config
    assert (config.success_key, config.ends_on_success, config.reward_range) == ("is_success", True, [-1.0, 0.0])
    assert (config.success_reward, config.max_episode_steps) == (0.0, 200)


def test_it_runs_in_workers(group):
    envs = group(CAR)
    rewards = envs.env_method("compute_reward", np.zeros((3, 1)), np.array([[0.0], [1.0], [0.01]]), {}, indices=[0])
    assert rewards[0].tolist() == [0, -1, 0]


def test_reset_options_set_the_goal():
    env = make_env(CAR)
    observation, _ = env.reset(seed=0, options={"desired_goal": [-0.5]})
    assert observation["desired_goal"] == pytest.approx([-0.5])
    _, reward, terminated, _, info = env.step(np.zeros(1, dtype=np.float32))
    assert (reward, terminated, info["is_success"]) == (0.0, True, True)


def test_ends_on_success_and_draw_goal():
    env = GoalEnvWrapper(
        gym.make("MountainCarContinuous-v0"),
        goal_of=lambda observation: observation[:1],
        reward=lambda achieved, desired: (np.abs(achieved - desired)[..., 0] < 9).astype(float),
        goal_space=gym.spaces.Box(-np.inf, np.inf, (1,), np.float32),
        sample_goal=lambda generator: generator.normal(0.3, 0.01, 1),
        success_reward=1.0,
        ends_on_success=False,
    )
    assert 0.2 < env.reset(seed=0)[0]["desired_goal"][0] < 0.4
    _, reward, terminated, _, info = env.step(np.zeros(1, dtype=np.float32))
    assert (reward, terminated, info["is_success"]) == (1.0, False, True)


def test_render_goal_draws_the_desired_goal():
    env = make_env(CAR, render_mode="rgb_array")
    env.reset(seed=0, options={"desired_goal": [-0.3]})
    red = (env.render() == (200, 30, 30)).all(axis=-1)
    assert np.flatnonzero(red.all(axis=0)).tolist() == [299, 300, 301], "the middle between -1.2 and 0.6"
    env.reset(options={"desired_goal": [0.0]})
    assert (env.render() == (200, 30, 30)).all(axis=-1)[:, 400].all(), "at the new goal"
    env.close()
