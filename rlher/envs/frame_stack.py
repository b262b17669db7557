"""A wrapper that stacks the last observations of a goal environment. Needs gymnasium and NumPy only."""

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np


class FrameStack(gym.Wrapper):
    """Show the last ``n_stack`` values of ``observation``, joined along the first axis, the newest first.

    The goals stay those of the newest step, because hindsight compares and replaces them one by one. (Gymnasium's
    ``FrameStackObservation`` stacks every key, so ``compute_reward`` would get stacks of goals.) Before
    ``n_stack`` steps the first observation is repeated. As the newest comes first, indices into ``observation`` keep
    their meaning.

    :raises ValueError: ``observation`` is not a Box.
    """

    def __init__(self, env: gym.Env, n_stack: int = 4) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, gym.spaces.Dict)
        space = env.observation_space["observation"]
        if not isinstance(space, gym.spaces.Box) or not space.shape:
            raise ValueError(f"only observations of a Box can be stacked, not {space}")
        low, high = (np.concatenate([bound] * n_stack) for bound in (space.low, space.high))
        stacked = gym.spaces.Box(low, high, dtype=space.dtype.type)
        self.observation_space = gym.spaces.Dict({**env.observation_space.spaces, "observation": stacked})
        self._frames: deque[np.ndarray] = deque(maxlen=n_stack)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and fill the stack with its first observation."""
        observation, info = self.env.reset(**kwargs)
        self._frames.extend([observation["observation"]] * (self._frames.maxlen or 1))
        return self._stack(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and put its observation before the others."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._frames.appendleft(observation["observation"])
        return self._stack(observation), reward, terminated, truncated, info

    def _stack(self, observation: dict[str, Any]) -> dict[str, Any]:
        return {**observation, "observation": np.concatenate(self._frames)}
