"""What a packed row holds, and in which types."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

ACHIEVED, GOAL = "achieved_goal", "desired_goal"

IN_ROW = 64
"""Bytes up to which an achieved goal is stored in the rows as well: eight percent of memory, for which a sample needs
one look-up less, a tenth of its time."""


@dataclass
class Layout:
    """Types and shapes of what is stored.

    :param row: type of a packed row: keys of the observation, then fields of our own that begin with an underscore.
    :param keys: keys of the observation that are no goals.
    :param achieved: type and shape of an achieved goal.
    :param goal: type and shape of a desired goal.
    :param in_row: whether achieved goals stand in the rows, too.
    """

    row: np.dtype
    keys: list[str]
    achieved: tuple[np.dtype, tuple[int, ...]]
    goal: tuple[np.dtype, tuple[int, ...]]
    in_row: bool

    @classmethod
    def of(cls, observation_space: spaces.Dict, action_space: spaces.Space) -> "Layout":
        """Return the layout for these spaces: float64 becomes float32, every other type stays (images as uint8).

        :raises NotImplementedError: a kind of space that cannot be stored.
        """
        parts = {key: (_small(space.dtype), _shape(space)) for key, space in observation_space.spaces.items()}
        keys = [key for key in parts if key not in (ACHIEVED, GOAL)]
        in_row = parts[ACHIEVED][0].itemsize * int(np.prod(parts[ACHIEVED][1])) <= IN_ROW
        own: list[tuple] = [
            ("_action", _small(action_space.dtype), (int(np.prod(action_space.shape or 1)),)),
            ("_reward", np.float32),
            ("_rest", np.float32),  # the part of the reward that compute_reward does not explain, once settled
            ("_episode", np.int32),
            ("_terminated", np.bool_),
        ]
        inside = [ACHIEVED, *keys] if in_row else keys
        row = np.dtype([(key, *parts[key]) for key in inside] + own, align=True)
        return cls(row, keys, parts[ACHIEVED], parts[GOAL], in_row)

    def goals(self, *shape: int) -> NDArray:
        """Return zeros of that shape, each a desired goal."""
        return np.zeros((*shape, *self.goal[1]), dtype=self.goal[0])

    def achieved_goals(self, *shape: int) -> NDArray:
        """Return zeros of that shape, each an achieved goal."""
        return np.zeros((*shape, *self.achieved[1]), dtype=self.achieved[0])


def plain(array: NDArray) -> NDArray:
    """Return an array's rows as items of bytes, sharing its memory."""
    flat = array.reshape(len(array), -1)
    return flat.view(np.dtype((np.void, flat.shape[1] * flat.itemsize)))[:, 0]


def _shape(space: spaces.Space) -> tuple[int, ...]:
    if isinstance(space, spaces.Discrete):
        return (1,)
    if isinstance(space, spaces.MultiDiscrete):
        return (len(space.nvec),)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return tuple(space.shape)
    raise NotImplementedError(f"{space} observation space is not supported")


def _small(dtype: Any) -> np.dtype:
    """Return the type to store: float32 for float64 (what torch works in), else the same."""
    return np.dtype(np.float32) if dtype == np.float64 else np.dtype(dtype)
