"""Bit flipping, the first experiment of the HER paper (Andrychowicz et al. 2017, section 4.1).

Importing this module registers the environment. An exported agent uses a copy of this module, so the module imports
nothing of rlher.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

SQUARE = 32
"""Width of a bit in the picture, in pixels."""

UNSET, SET = (232, 232, 232), (44, 62, 80)
"""Colours of a bit."""

WRONG, RIGHT = (192, 57, 43), (39, 174, 96)
"""Colours of the frame around a bit that differs from the goal, or equals it."""


class BitFlippingEnv(gym.Env[dict[str, Any], Any]):
    """Turn ``n_bits`` random bits into a goal pattern, one flip a step, in at most ``n_bits`` steps.

    As in the paper, each episode has a new goal; Stable-Baselines3's environment of the same name has a fixed goal.
    Start and goal always differ. The reward is 0 for the step that reaches the goal, and -1 for every other step.
    Reaching the goal ends the episode.

    Observations are float32 of shape ``(n_bits,)`` in {0, 1} under all three keys (``observation`` and
    ``achieved_goal`` are the same bits).

    :param n_bits: number of bits. An episode is truncated after as many steps.
    :param continuous: whether actions are ``Box(-1, 1, (n_bits,))``, where the index of the largest entry is the bit to
        flip; otherwise they are ``Discrete(n_bits)``.
    :param render_mode: ``"rgb_array"`` or ``None``.
    :raises ValueError: ``n_bits`` below 1.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012  (gymnasium's own convention)

    def __init__(self, n_bits: int = 15, continuous: bool = False, render_mode: str | None = None) -> None:
        if n_bits < 1:
            raise ValueError(f"n_bits={n_bits} is too small; it must be at least 1")
        self.n_bits = n_bits
        self.continuous = continuous
        self.render_mode = render_mode
        bits = spaces.Box(0.0, 1.0, (n_bits,), dtype=np.float32)
        self.observation_space: Any = spaces.Dict(observation=bits, achieved_goal=bits, desired_goal=bits)
        self.action_space = spaces.Box(-1.0, 1.0, (n_bits,), np.float32) if continuous else spaces.Discrete(n_bits)
        self._bits = self._goal = np.ones(n_bits, dtype=np.float32)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Draw a start and a different goal."""
        super().reset(seed=seed)
        self._steps = 0
        self._goal, self._bits = self._sample_bits(), self._sample_bits()
        while np.array_equal(self._bits, self._goal):  # with a single bit, in half of the draws
            self._bits = self._sample_bits()
        return self._observe(), {"is_success": False}

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Flip the bit that ``action`` selects."""
        bit = int(np.argmax(action)) if self.continuous else int(action)
        self._bits[bit] = 1.0 - self._bits[bit]
        self._steps += 1
        success = bool(np.array_equal(self._bits, self._goal))
        reward = 0.0 if success else -1.0
        return self._observe(), reward, success, self._steps >= self.n_bits, {"is_success": success}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return 0 if all bits agree, else -1: float32, shape of the goals without their last axis."""
        reached = self.compute_terminated(achieved_goal, desired_goal, info)
        return np.asarray(reached, dtype=np.float32) - np.float32(1.0)

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return whether all bits agree: bool, shape of the goals without their last axis."""
        return np.all(np.asarray(achieved_goal) == np.asarray(desired_goal), axis=-1)

    def render(self) -> np.ndarray | None:
        """Return a picture of the bits above the goal: uint8, ``(2 * SQUARE, n_bits * SQUARE, 3)``."""
        if self.render_mode is None:
            return None
        picture = np.full((2 * SQUARE, self.n_bits * SQUARE, 3), 255, dtype=np.uint8)
        for column in range(self.n_bits):
            frame = RIGHT if self._bits[column] == self._goal[column] else WRONG
            for row, bit in enumerate((self._bits[column], self._goal[column])):
                top, left = row * SQUARE, column * SQUARE
                picture[top + 2 : top + SQUARE - 2, left + 2 : left + SQUARE - 2] = frame
                picture[top + 5 : top + SQUARE - 5, left + 5 : left + SQUARE - 5] = SET if bit else UNSET
        return picture

    def _sample_bits(self) -> np.ndarray:
        return self.np_random.integers(0, 2, self.n_bits).astype(np.float32)

    def _observe(self) -> dict[str, np.ndarray]:
        return {"observation": self._bits.copy(), "achieved_goal": self._bits.copy(), "desired_goal": self._goal.copy()}


gym.register("BitFlipping-v0", f"{__name__}:BitFlippingEnv")
