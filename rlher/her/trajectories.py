"""Recorded episodes, and how the replay buffer stores them as demonstrations, which are never evicted.

:mod:`rlher.her.replay_buffer` samples a fixed share of each batch from demonstrations. :mod:`rlher.her.datasets` reads
and writes datasets of episodes. :mod:`rlher.training.learning_from_demonstrations` trains on them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlher.her.storage import ACHIEVED_GOAL, Storage, copy_into


@dataclass(frozen=True)
class Trajectory:
    """One recorded episode of T steps.

    :param observations: (T + 1, …) observations by key, including the goals, not normalised.
    :param actions: (T, …) actions as the environment took them.
    :param rewards: (T,) rewards.
    :param terminated: whether the last step is terminal; False if the episode was truncated.
    :param seed: seed of the environment's reset, None if it is unknown.
    """

    observations: Mapping[str, NDArray]
    actions: NDArray
    rewards: NDArray
    terminated: bool = False
    seed: int | None = None

    def __len__(self) -> int:
        return len(self.rewards)


def store_demonstrations(storage: Storage, trajectories: Sequence[Trajectory], action_space: spaces.Space) -> None:
    """Store trajectories as demonstrations, with continuous actions scaled to [-1, 1] as SB3 stores them.

    :param storage: storage whose ``demonstration_steps`` is the total length of the trajectories.
    :raises ValueError: a trajectory has no step, lacks a key, or has an array of another length or shape.
    """
    layout = storage.layout
    n_stored = 0
    for number, trajectory in enumerate(trajectories):
        steps = len(trajectory)
        if not steps:
            raise ValueError(f"demonstration {number} has no step; leave it out.")
        obs, rows = np.zeros(steps + 1, layout.observation_dtype), np.zeros(steps, layout.row_dtype)
        achieved = np.zeros(steps + 1, layout.achieved_dtype)
        try:
            for key in layout.observation_dtype.names or ():
                copy_into(trajectory.observations[key], obs[key])
            rows["obs"] = obs[:-1]
            achieved[...] = np.reshape(trajectory.observations[ACHIEVED_GOAL], achieved.shape)
            rows["action"] = scale_actions(np.asarray(trajectory.actions), action_space).reshape(rows["action"].shape)
            # The loss indexes Q values by discrete actions, so an invalid action would be an index out of bounds.
            if isinstance(action_space, spaces.Discrete) and not all(map(action_space.contains, rows["action"][:, 0])):
                raise ValueError("an action is out of range")
            rows["reward"] = np.asarray(trajectory.rewards).reshape(-1)
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"demonstration {number} does not fit the spaces of the buffer: {error}.") from error
        rows["terminated"][-1] = trajectory.terminated
        storage.add_demonstration(n_stored, rows, obs[-1], achieved[1:])
        n_stored += steps


def scale_actions(actions: NDArray, action_space: spaces.Space) -> NDArray:
    """Return actions (n, …) as SB3 stores them: actions of a ``Box`` are clipped and scaled to [-1, 1]."""
    if not isinstance(action_space, spaces.Box):
        return actions
    low, high = action_space.low, action_space.high
    actions = actions.reshape(len(actions), *action_space.shape)
    return 2.0 * (np.clip(actions, low, high) - low) / (high - low) - 1.0
