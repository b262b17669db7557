"""Corrections of simulators."""

import gymnasium as gym
import numpy as np

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
