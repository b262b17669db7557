"""Types and shapes of a packed row: one observation with the action and reward that followed it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

ACHIEVED, GOAL = "achieved_goal", "desired_goal"

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

IN_ROW = 64
"""Largest achieved goal, in bytes, that is stored in the rows, too: a sample then needs one look-up less."""


@dataclass
class Layout:
    """Types and shapes of the stored transitions. Goals keep the environment's precision, because rewards depend on it.

    :param row: type of a packed row: keys of the observation, then fields that begin with an underscore.
    :param transition: type of a row (``now``) and the observation that follows it (``after``).
    :param keys: keys of the observation other than the goals.
    :param achieved: type and shape of an achieved goal.
    :param goal: type and shape of a desired goal.
    :param in_row: whether achieved goals are stored in the rows, too, with the type of a sample.
    :param exact_in_row: whether that type is the environment's own precision.
    """

    row: np.dtype
    transition: np.dtype
    keys: list[str]
    achieved: tuple[np.dtype, tuple[int, ...]]
    goal: tuple[np.dtype, tuple[int, ...]]
    in_row: bool
    exact_in_row: bool

    @classmethod
    def of(cls, observation_space: spaces.Dict, action_space: spaces.Space) -> "Layout":
        """Return the layout for these spaces.

        :raises NotImplementedError: a kind of space that cannot be stored.
        """
        parts = {key: (sample_dtype(space.dtype), _shape(space)) for key, space in observation_space.spaces.items()}
        keys = [key for key in parts if key not in (ACHIEVED, GOAL)]
        goals = {key: (np.dtype(observation_space[key].dtype), parts[key][1]) for key in (ACHIEVED, GOAL)}
        dtype, shape = parts[ACHIEVED]
        in_row = dtype.itemsize * int(np.prod(shape)) <= IN_ROW
        own: list[tuple] = [
            ("_action", sample_dtype(action_space.dtype), (int(np.prod(action_space.shape or 1)),)),
            ("_reward", np.float32),
            ("_goal_independent", np.float32),  # reward that compute_reward does not explain, once computed
            ("_episode", np.int32),
            ("_terminated", np.bool_),
        ]
        observation: list[tuple] = [(ACHIEVED, dtype, shape)] if in_row else []
        observation += [(key, *parts[key]) for key in keys]
        row, after = np.dtype(observation + own, align=True), np.dtype(observation, align=True)
        transition = np.dtype([("now", row), ("after", after)], align=True)
        exact_in_row = in_row and goals[ACHIEVED][0] == dtype
        return cls(row, transition, keys, goals[ACHIEVED], goals[GOAL], in_row, exact_in_row)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row and its achieved goal."""
        return self.row.itemsize + self.achieved_goals(1).nbytes

    def goals(self, *shape: int) -> NDArray:
        """Return zeros of that shape, each a desired goal."""
        return np.zeros((*shape, *self.goal[1]), dtype=self.goal[0])

    def achieved_goals(self, *shape: int) -> NDArray:
        """Return zeros of that shape, each an achieved goal."""
        return np.zeros((*shape, *self.achieved[1]), dtype=self.achieved[0])


def sample_dtype(dtype: Any) -> np.dtype:
    """Return the type of sampled tensors: float32 for float64, else the same type (images stay uint8)."""
    return FLOAT32 if dtype == FLOAT64 else np.dtype(dtype)


def as_bytes(array: NDArray) -> NDArray:
    """Return a view of an array's rows as items without fields, which NumPy copies ten times faster."""
    flat = array.reshape(len(array), -1)
    return flat.view(np.dtype((np.void, flat.shape[1] * flat.itemsize)))[:, 0]


def transitions_as_bytes(rows: NDArray, transition: np.dtype) -> NDArray:
    """Return a view of each row and the observation that follows it as one item without fields."""
    item = np.dtype((np.void, transition.itemsize))
    return np.ndarray(len(rows) - 1, item, rows, 0, (rows.itemsize,))


def _shape(space: spaces.Space) -> tuple[int, ...]:
    if isinstance(space, spaces.Discrete):
        return (1,)
    if isinstance(space, spaces.MultiDiscrete):
        return (len(space.nvec),)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return tuple(space.shape)
    raise NotImplementedError(f"{space} observation space is not supported")
