"""The patched function equals that of gymnasium-robotics."""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest

from rlher.envs.patches import robot_get_obs
from rlher.envs.registration import ensure_registered
from tests.support.modules import fresh_module

ensure_registered("FetchReach-v4")


@pytest.fixture
def read_joints() -> Callable:
    """Return gymnasium-robotics' own function."""
    module = fresh_module("gymnasium_robotics.utils.mujoco_utils")
    assert module.robot_get_obs is not robot_get_obs
    return module.robot_get_obs


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
