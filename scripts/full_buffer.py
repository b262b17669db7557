"""Filling a replay buffer for a benchmark; a million calls of ``add`` would take half a minute."""

import numpy as np
from numpy.typing import NDArray

from rlher.her.storage import Storage


def append_episode(storage: Storage, rows: NDArray, last_obs: NDArray, next_achieved_goals: NDArray) -> None:
    """Store an episode of T steps in the first environment's ring, where it may evict the oldest transitions.

    :param rows: (T,) packed rows; their field ``episode`` is overwritten.
    :param last_obs: the packed observation after the last step.
    :param next_achieved_goals: (T, …) goals achieved after each step.
    """
    ids = storage.steps_added + np.arange(len(rows))
    positions, evicts = storage.positions(ids), ids >= storage.capacity
    storage.episode_first_id[storage.rows["episode"][positions[evicts]]] = ids[evicts] - storage.capacity + 1
    storage.newest_episode[0] = rows["episode"][:] = episode = (storage.newest_episode[0] + 1) % storage.capacity
    storage.rows[positions], storage.next_achieved_goals[positions] = rows, next_achieved_goals
    storage.episode_first_id[episode], storage.episode_last_id[episode] = ids[0], ids[-1]
    storage.episode_last_obs[episode] = last_obs
    storage.is_running[0] = False
    storage.steps_added += len(rows)
