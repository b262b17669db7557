"""Recorded episodes, and their packed form in the storage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlher.her.layout import ACHIEVED, GOAL, Layout


@dataclass(frozen=True)
class Trajectory:
    """One recorded episode of T steps.

    :param observations: (T + 1, …) by key, with the goals, not normalised.
    :param actions: (T, …) as the environment took them.
    :param rewards: (T,).
    :param terminated: whether the last step is terminal; False: the episode was truncated.
    """

    observations: Mapping[str, NDArray]
    actions: NDArray
    rewards: NDArray
    terminated: bool = False

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass(frozen=True)
class PackedEpisodes:
    """Whole episodes as packed rows, in order; an episode has a row more than steps.

    :param rows: (rows,) packed rows, of which ``_episode`` counts from 0.
    :param achieved: (rows, …) achieved goals.
    :param goals: (rows, …) desired goals.
    :param lengths: (episodes,) steps of each episode.
    """

    rows: NDArray
    achieved: NDArray
    goals: NDArray
    lengths: NDArray[np.int64]

    @property
    def last(self) -> NDArray[np.int64]:
        """(episodes,) index of each episode's last row."""
        return np.cumsum(self.lengths + 1) - 1

    @property
    def transitions(self) -> NDArray[np.int64]:
        """(steps,) indices of the rows with a step, which are all but the last of each episode."""
        return np.delete(np.arange(len(self.rows)), self.last)


def pack(trajectories: Sequence[Trajectory], layout: Layout, action_space: spaces.Space) -> PackedEpisodes:
    """Return trajectories in the layout of a storage, with continuous actions scaled to [-1, 1] as SB3 stores them.

    :raises ValueError: there is none, or one has no step, lacks a key, or has entries of another number or shape.
    """
    if not trajectories:
        raise ValueError("there are no demonstrations; give at least one trajectory.")
    lengths = np.array([len(each) for each in trajectories], dtype=np.int64)
    count = int(lengths.sum()) + len(lengths)
    packed = PackedEpisodes(np.zeros(count, layout.row), layout.achieved_goals(count), layout.goals(count), lengths)
    for number, (trajectory, last) in enumerate(zip(trajectories, packed.last.tolist(), strict=True)):
        if not len(trajectory):
            raise ValueError(f"demonstration {number} has no step; leave it out.")
        try:
            _write(packed, trajectory, number, last, action_space)
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"demonstration {number} does not fit the spaces of the buffer: {error}.") from error
    return packed


def _write(packed: PackedEpisodes, trajectory: Trajectory, number: int, last: int, action_space: spaces.Space) -> None:
    steps, observed = slice(last - len(trajectory), last), slice(last - len(trajectory), last + 1)
    rows, observations = packed.rows, trajectory.observations
    for key in rows.dtype.names or ():
        if not key.startswith("_"):
            _copy(observations[key], rows[key][observed])
    _copy(observations[ACHIEVED], packed.achieved[observed])
    _copy(observations[GOAL], packed.goals[observed])
    _copy(scale_actions(np.asarray(trajectory.actions), action_space), rows["_action"][steps])
    rows["_reward"][steps] = np.asarray(trajectory.rewards).reshape(-1)
    rows["_episode"][observed] = number
    rows["_terminated"][last - 1] = trajectory.terminated


def _copy(values: NDArray, into: NDArray) -> None:
    """Copy (n, …) values into an array of as many entries each.

    :raises ValueError: they have another number or shape.
    """
    into[...] = np.asarray(values).reshape(into.shape)


def scale_actions(actions: NDArray, action_space: spaces.Space) -> NDArray:
    """Return actions (n, …) as Stable-Baselines3 stores them: those of a ``Box`` clipped and scaled to [-1, 1]."""
    if not isinstance(action_space, spaces.Box):
        return actions
    low, high = action_space.low, action_space.high
    actions = actions.reshape(len(actions), *action_space.shape)
    return 2.0 * (np.clip(actions, low, high) - low) / (high - low) - 1.0
