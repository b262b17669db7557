"""Repeatable episodes of panda-gym, which takes a new seed from the operating system at each reset without one."""

from typing import Any

import gymnasium as gym
import numpy as np


class SeededResets(gym.Wrapper):
    """Give a reset without a seed one that follows from the last seed that was given.

    Gymnasium continues with its generator instead, so that a run with a seed repeats itself and can be resumed exactly;
    panda-gym 3.0.7 does not (``RobotTaskEnv.reset``).
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset with the given seed, or with the next one."""
        if seed is None:
            seed = int(self._rng.integers(2**31))
        else:
            self._rng = np.random.default_rng(seed)
        return self.env.reset(seed=seed, options=options)


def with_seeded_resets(env: gym.Env) -> gym.Env:
    """Return an environment of panda-gym with :class:`SeededResets`, any other as it is."""
    return SeededResets(env) if type(env.unwrapped).__module__.startswith("panda_gym.") else env
