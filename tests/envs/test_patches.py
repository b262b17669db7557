"""The patched functions equal those of highway-env and gymnasium-robotics, and are faster."""

import time
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest

from rlher.envs.patches import observe, robot_get_obs
from rlher.envs.registration import ensure_registered
from tests.support.modules import fresh_module

pytest.importorskip("highway_env")
from highway_env.envs.common import observation as highway

ensure_registered("FetchReach-v4")


@pytest.fixture
def highway_observe() -> Callable:
    """Return highway-env's own function."""
    return fresh_module("highway_env.envs.common.observation").KinematicsGoalObservation.observe


@pytest.fixture
def read_joints() -> Callable:
    """Return gymnasium-robotics' own function."""
    module = fresh_module("gymnasium_robotics.utils.mujoco_utils")
    assert module.robot_get_obs is not robot_get_obs
    return module.robot_get_obs


@pytest.mark.parametrize("walls", [True, False])
def test_observations_are_equal(highway_observe, walls: bool) -> None:
    env = gym.make("parking-v0", config={"add_walls": walls}).unwrapped
    for seed in range(3):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for _ in range(20):
            ours, theirs = observe(env.observation_type), highway_observe(env.observation_type)
            assert list(ours) == list(theirs)
            for name in theirs:
                np.testing.assert_array_equal(ours[name], theirs[name])
                assert ours[name].dtype == theirs[name].dtype
            env.step(env.action_space.sample())
    assert ours["observation"] is not ours["achieved_goal"]


def test_without_a_vehicle(highway_observe) -> None:
    env = gym.make("parking-v0").unwrapped
    env.reset(seed=0)
    observation_type = highway.KinematicsGoalObservation(env, scales=[1.0], features=["x"])
    observation_type._KinematicsGoalObservation__vehicle = None
    env.controlled_vehicles = []
    env.vehicle = None
    observation_type.observer_vehicle = None
    for name, value in highway_observe(observation_type).items():
        np.testing.assert_array_equal(observe(observation_type)[name], value)


@pytest.mark.parametrize("name", ["FetchReach-v4", "FetchPush-v4", "HandReach-v3", "HandManipulateBlock-v1"])
def test_joints_are_equal(read_joints: Callable, name: str) -> None:
    envs = [gym.make(name).unwrapped for _ in range(2)]
    for env in envs:  # the joints of one model are not those of another
        env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(5):
            env.step(env.action_space.sample())
            read = env.model, env.data, env._model_names.joint_names
            for ours, theirs in zip(robot_get_obs(*read), read_joints(*read), strict=True):
                np.testing.assert_array_equal(ours, theirs)
                assert ours.dtype == theirs.dtype
                assert not np.shares_memory(ours, env.data.qpos)


def test_without_joints(read_joints: Callable) -> None:
    env = gym.make("FetchReach-v4").unwrapped
    for names in ((), ("camera",)):
        for ours, theirs in zip(
            robot_get_obs(env.model, env.data, names), read_joints(env.model, env.data, names), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_environments_use_it() -> None:
    env = gym.make("FetchReach-v4").unwrapped
    assert env._utils.robot_get_obs is robot_get_obs


def test_they_are_faster(highway_observe: Callable, read_joints: Callable) -> None:
    parking, fetch = gym.make("parking-v0").unwrapped.observation_type, gym.make("FetchReach-v4").unwrapped
    joints = fetch.model, fetch.data, fetch._model_names.joint_names

    def seconds(function: Callable, *arguments) -> float:
        start = time.perf_counter()
        for _ in range(100):
            function(*arguments)
        return time.perf_counter() - start

    for ours, theirs, arguments in ((observe, highway_observe, [parking]), (robot_get_obs, read_joints, joints)):
        fastest = [min(seconds(function, *arguments) for _ in range(3)) for function in (ours, theirs)]
        assert fastest[0] < 0.7 * fastest[1]
