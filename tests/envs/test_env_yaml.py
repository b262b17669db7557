"""Each file of conf/env agrees with the real environment."""

import functools

import gymnasium as gym
import numpy as np
import pytest

from rlher.cli import lists
from rlher.config.command_configs import CheckConfig
from rlher.config.compose import compose
from rlher.config.conf_files import conf_files
from rlher.config.environment import EnvConfig
from rlher.envs.contract import PROPERTIES, check_goal_env
from rlher.envs.make import make_env

NAMES = list(conf_files("env"))
INSTALLED = [row["env"] for row in lists.envs() if not row["needs"]]


@functools.cache
def load(name: str) -> EnvConfig:
    return compose(CheckConfig, {"env": name}).env


def force_success(env: gym.Env) -> tuple:
    """Make one step successful, and return its results."""
    env.reset(seed=0)
    bare = env.unwrapped
    no_action = np.zeros(env.action_space.shape, dtype=np.float32)
    if env.spec.id.startswith("BitFlipping"):
        bare._goal = bare._bits.copy()
        bare._goal[0] = 1 - bare._goal[0]
        return env.step(0)
    if env.spec.id.startswith("parking"):
        vehicle, goal = bare.vehicle, bare.vehicle.goal
        vehicle.position, vehicle.heading, vehicle.speed = goal.position, goal.heading, 0.0
        return env.step(no_action)
    if env.spec.id.startswith("Panda"):
        bare.task.goal = bare.task.get_achieved_goal()
        return env.step(no_action)
    for _ in range(20):  # until the robot is at rest
        observation = env.step(no_action)[0]
    bare.goal = observation["achieved_goal"].copy()
    return env.step(no_action)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_sets_all_probed_properties(name):
    config = load(name)
    unset = {key for key in (*PROPERTIES, "actions", "description") if getattr(config, key) is None} - {"crash_key"}
    assert unset == ({"max_episode_steps"} if name == "BitFlipping-v0" else set()), "its limit is env.kwargs.n_bits"
    assert config.name in ("", name)
    assert config.label == name


@pytest.mark.parametrize("name", INSTALLED)
def test_success_has_the_declared_effect_on_reward_and_episode(name):
    config = load(name)
    env = make_env(config)
    observation, reward, terminated, _, info = force_success(env)
    assert info["is_success"] is True
    assert bool(info[config.success_key])
    assert terminated == config.ends_on_success
    compute_reward = env.get_wrapper_attr("compute_reward")
    assert compute_reward(observation["achieved_goal"], observation["desired_goal"], info) >= config.success_reward
    low, high = config.reward_range
    assert low is None or low <= reward
    assert reward <= high
    env.close()


@pytest.mark.parametrize("name", INSTALLED)
def test_the_limit_is_the_registered_one(name):
    config = load(name)
    env = make_env(config)
    registered = gym.spec(config.id).max_episode_steps
    if config.id == "parking-v0":
        settings = env.unwrapped.config
        registered = settings["duration"] * settings["policy_frequency"]
    assert config.max_episode_steps == registered
    env.close()


@pytest.mark.parametrize("name", INSTALLED)
def test_every_environment_passes_the_check(name):
    doubts = [finding for finding in check_goal_env(load(name)).findings if finding.level != "ok"]
    if name.startswith("Panda"):  # a spinning cube turns faster than panda-gym declares
        doubts = [doubt for doubt in doubts if "'observation'" not in doubt.message]
    assert doubts == []


def test_a_crash_in_parking_v0_has_a_goal_independent_penalty():
    env = make_env(load("parking-v0"))
    env.reset(seed=0)
    for _ in range(100):
        observation, reward, terminated, _, info = env.step(np.array([1.0, 0.0]))
        if terminated:
            break
    assert info["is_crash"] is True
    assert info["is_success"] is False
    goal_reward = env.unwrapped.compute_reward(observation["achieved_goal"], observation["desired_goal"], info)
    assert reward - goal_reward == pytest.approx(-5)
    env.close()


def test_an_environment_without_a_file_is_named_by_its_id():
    config = check_goal_env(load("FetchReachDense-v4")).config
    assert (config.name, config.success_key, config.max_episode_steps) == ("FetchReachDense-v4", "is_success", 50)
    assert (config.reward_range, config.success_reward, config.ends_on_success) == ([None, 0.0], None, False)
