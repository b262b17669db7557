"""The patched observation of parking equals highway-env's own, and is faster."""

import time

import gymnasium as gym
import numpy as np
import pytest

from rlher.envs.patches import observe
from tests.support.modules import fresh_module

pytest.importorskip("highway_env")
from highway_env.envs.common import observation as highway


@pytest.fixture
def original():
    """Return highway-env's own function."""
    return fresh_module("highway_env.envs.common.observation").KinematicsGoalObservation.observe


@pytest.mark.parametrize("walls", [True, False])
def test_observations_are_equal(original, walls: bool) -> None:
    env = gym.make("parking-v0", config={"add_walls": walls}).unwrapped
    for seed in range(3):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for _ in range(20):
            ours, theirs = observe(env.observation_type), original(env.observation_type)
            assert list(ours) == list(theirs)
            for name in theirs:
                np.testing.assert_array_equal(ours[name], theirs[name])
                assert ours[name].dtype == theirs[name].dtype
            env.step(env.action_space.sample())
    assert ours["observation"] is not ours["achieved_goal"]


def test_without_a_vehicle(original) -> None:
    env = gym.make("parking-v0").unwrapped
    env.reset(seed=0)
    observation_type = highway.KinematicsGoalObservation(env, scales=[1.0], features=["x"])
    observation_type._KinematicsGoalObservation__vehicle = None
    env.controlled_vehicles = []
    env.vehicle = None
    observation_type.observer_vehicle = None
    for name, value in original(observation_type).items():
        np.testing.assert_array_equal(observe(observation_type)[name], value)


def test_it_is_faster(original) -> None:
    observation = gym.make("parking-v0").unwrapped.observation_type

    def seconds(function) -> float:
        start = time.perf_counter()
        for _ in range(100):
            function(observation)
        return time.perf_counter() - start

    assert min(seconds(observe) for _ in range(3)) < 0.7 * min(seconds(original) for _ in range(3))
