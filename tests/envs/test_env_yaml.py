"""What each file of conf/env says is true of the real environment."""

import functools

import gymnasium as gym
import numpy as np
import pytest
from hydra import compose, initialize_config_module

from rlher.config import store
from rlher.config.check import CheckConfig
from rlher.config.environment import EnvConfig
from rlher.config.key import to_object
from rlher.envs import catalog, make_env
from rlher.envs.contract.checker import check_goal_env
from rlher.envs.contract.probe import PROBED, describe

NAMES = [entry.name for entry in catalog.entries()]
HERE = [entry.name for entry in catalog.entries() if entry.installed]


@functools.cache
def load(name: str, *overrides: str) -> EnvConfig:
    store.register()
    with initialize_config_module("rlher.conf", version_base="1.3"):
        return to_object(compose("check", [f"env={name}", *overrides]), CheckConfig).env


def force_success(env: gym.Env) -> tuple:
    """Bring about a success by one step, and return what that step returned."""
    env.reset(seed=0)
    bare = env.unwrapped
    nothing = np.zeros(env.action_space.shape, dtype=np.float32)
    if env.spec.id.startswith("BitFlipping"):
        bare._goal = bare._bits.copy()
        bare._goal[0] = 1 - bare._goal[0]
        return env.step(0)
    if env.spec.id.startswith("parking"):
        bare.vehicle.position, bare.vehicle.heading, bare.vehicle.speed = (
            bare.vehicle.goal.position,
            bare.vehicle.goal.heading,
            0.0,
        )
        return env.step(nothing)
    if env.spec.id.startswith("Panda"):
        bare.task.goal = bare.task.get_achieved_goal()
        return env.step(nothing)
    for _ in range(20):  # let the robot come to rest
        observation = env.step(nothing)[0]
    bare.goal = observation["achieved_goal"].copy()
    return env.step(nothing)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_says_all_that_the_program_must_know(name):
    cfg = load(name)
    assert all(getattr(cfg, key) is not None for key in (*PROBED, "actions", "description"))
    assert cfg.name in ("", name)
    assert describe(cfg).name == name


@pytest.mark.parametrize("name", HERE)
def test_random_play_finds_what_the_file_says(name):
    said = load(name)
    # The limit of an environment without a TimeLimit takes long to see, and has a test of its own.
    found = describe(EnvConfig(id=said.id, kwargs=said.kwargs, max_episode_steps=said.max_episode_steps))
    for key in ("success_key", "reward_range", "actions", "ends_on_success", "success_reward"):
        if getattr(found, key) is not None:
            assert getattr(found, key) == getattr(said, key), key
    if found.crash_key:
        assert found.crash_key == said.crash_key


@pytest.mark.parametrize("name", HERE)
def test_success_does_to_reward_and_episode_what_the_file_says(name):
    cfg = load(name)
    env = make_env(cfg)
    observation, reward, terminated, _, info = force_success(env)
    assert info["is_success"] is True
    assert bool(info[cfg.success_key])
    assert terminated == cfg.ends_on_success
    compute_reward = env.get_wrapper_attr("compute_reward")
    assert compute_reward(observation["achieved_goal"], observation["desired_goal"], info) >= cfg.success_reward
    low, high = cfg.reward_range
    assert low is None or low <= reward
    assert reward <= high
    env.close()


@pytest.mark.parametrize("name", HERE)
def test_the_limit_is_the_registered_one(name):
    cfg = load(name)
    env = make_env(cfg)
    registered = gym.spec(cfg.id).max_episode_steps
    if cfg.id == "parking-v0":
        own = env.unwrapped.config
        registered = own["duration"] * own["policy_frequency"]
    if cfg.id == "BitFlipping-v0":
        registered = env.unwrapped.n_bits
    assert cfg.max_episode_steps == registered
    env.close()


@pytest.mark.parametrize("name", HERE)
def test_every_environment_passes_the_check(name):
    doubts = [finding.sentence for finding in check_goal_env(load(name)) if finding.level != "ok"]
    if name.startswith("Panda"):  # a spinning cube does turn faster than panda-gym declares
        doubts = [doubt for doubt in doubts if not doubt.startswith("'observation' left its declared Box(-10.0")]
    assert doubts == []


def test_parking_classic_has_no_walls_and_a_hundred_steps():
    # By itself the environment adds up 0.2 s in floats and stops a step late.
    env = make_env(load("parking-classic"))
    env.reset(seed=0)
    ends = [env.step(np.array([1.0, 0.0]))[2:4] for _ in range(100)]
    assert ends == [(False, False)] * 99 + [(False, True)]
    env.close()


def test_parking_v0_crashes_into_its_walls_at_a_price_no_goal_explains():
    env = make_env(load("parking-v0"))
    env.reset(seed=0)
    for _ in range(100):
        observation, reward, terminated, _, info = env.step(np.array([1.0, 0.0]))
        if terminated:
            break
    assert info["is_crash"] is True
    assert info["is_success"] is False
    explained = env.unwrapped.compute_reward(observation["achieved_goal"], observation["desired_goal"], info)
    assert reward - explained == pytest.approx(-5)
    env.close()


@pytest.mark.parametrize("n_bits", [3, 30])
def test_bit_flippings_limit_follows_its_length(n_bits):
    cfg = load("BitFlipping-v0", f"env.n_bits={n_bits}")
    assert cfg.max_episode_steps == n_bits
    assert make_env(cfg).observation_space["desired_goal"].shape == (n_bits,)
    assert make_env(load("BitFlipping-v0", f"env.n_bits={n_bits}", "env.continuous=true")).action_space.shape == (
        n_bits,
    )


def test_an_environment_without_a_file_goes_by_its_id():
    cfg = describe(load("any", "env.id=FetchReachDense-v4"))
    assert (cfg.name, cfg.success_key, cfg.max_episode_steps) == ("FetchReachDense-v4", "is_success", 50)
    assert (cfg.reward_range, cfg.success_reward, cfg.ends_on_success) == ([None, 0.0], None, False)


def test_a_maze_can_be_made_to_end_on_success():
    cfg = load("PointMaze_UMaze-v3", "env.kwargs.continuing_task=false", "env.ends_on_success=true")
    levels = {finding.level for finding in check_goal_env(cfg)}
    assert "error" not in levels
    assert force_success(make_env(cfg))[2] is True


def test_a_maze_that_is_said_to_end_on_success_and_does_not_is_caught():
    cfg = load("PointMaze_UMaze-v3", "env.ends_on_success=true")
    errors = [finding.sentence for finding in check_goal_env(cfg) if finding.level == "error"]
    assert errors == ["env.ends_on_success=true, but success does not end an episode."]
