"""Corrections of simulators."""

import gymnasium as gym
import gymnasium_robotics
import numpy as np
import pytest

from rlher.config.environment import EnvConfig
from rlher.envs.make import make_env
from rlher.envs.simulators import SeededResets


class ForgetsItsSeed(gym.Env):
    """As panda-gym: a reset without a seed takes one from the operating system."""

    def reset(self, *, seed=None, options=None):
        return np.random.default_rng(seed).random(), {}


def test_resets_without_a_seed_follow_from_the_last_seed():
    def starts():
        env = SeededResets(ForgetsItsSeed())
        return [env.reset(seed=7)[0], *(env.reset()[0] for _ in range(3)), env.reset(seed=7)[0]]

    assert starts() == starts()
    assert len(set(starts())) == 4
    assert starts()[0] == ForgetsItsSeed().reset(seed=7)[0]


@pytest.mark.parametrize("name", ["FetchReach-v4", "FetchPickAndPlace-v4"])
def test_fetch_is_that_of_gymnasium_robotics(name: str) -> None:
    gym.register_envs(gymnasium_robotics)
    theirs, ours = gym.make(name), make_env(EnvConfig(id=name))
    rng = np.random.default_rng(0)
    for seed in range(2):
        expected, returned = theirs.reset(seed=seed), ours.reset(seed=seed)
        for _ in range(50):
            np.testing.assert_equal(returned[0], expected[0])
            action = rng.uniform(-1, 1, 4).astype(np.float32)
            expected, returned = theirs.step(action), ours.step(action)
            assert returned[1:4] == expected[1:4]
