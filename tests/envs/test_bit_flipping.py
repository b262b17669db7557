"""BitFlippingEnv: dynamics, goals, rewards and rendering."""

import numpy as np
import pytest

from rlher.config.command_configs import CheckConfig
from rlher.config.compose import compose
from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.envs.make import make_env


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("n_bits", [1, 2, 15])
def test_flipping_the_wrong_bits_reaches_the_goal_and_ends_the_episode(n_bits, continuous):
    env = BitFlippingEnv(n_bits, continuous)
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        wrong = np.flatnonzero(observation["achieved_goal"] != observation["desired_goal"])
        *before, last = [env.step(np.eye(n_bits)[bit] if continuous else bit) for bit in wrong]
        assert all(step[1:4] == (-1.0, False, False) for step in before)
        final, reward, terminated, _, info = last
        assert (reward, terminated, info["is_success"]) == (0.0, True, True)
        assert env.compute_terminated(final["achieved_goal"], final["desired_goal"], info)
        assert all(env.observation_space[key].contains(final[key]) for key in final)


def test_each_episode_has_a_new_goal_that_differs_from_its_start():
    env = BitFlippingEnv(2)
    env.reset(seed=0)
    goals = set()
    for _ in range(50):
        observation, _ = env.reset()
        assert not np.array_equal(observation["achieved_goal"], observation["desired_goal"])
        goals.add(tuple(observation["desired_goal"]))
    assert len(goals) == 4


@pytest.mark.parametrize("n_bits", [4, 30])
def test_an_episode_is_truncated_after_n_bits_steps(n_bits):
    composed = compose(CheckConfig, {"env": "BitFlipping-v0", "env.kwargs.n_bits": n_bits}).env
    for env in (BitFlippingEnv(n_bits), make_env(composed)):
        observation, _ = env.reset(seed=0)
        # Flipping a right bit back and forth never reaches the goal.
        bit = int(np.flatnonzero(observation["achieved_goal"] == observation["desired_goal"])[0])
        ends = [env.step(bit)[2:4] for _ in range(n_bits)]
        assert ends == [(False, False)] * (n_bits - 1) + [(False, True)]
