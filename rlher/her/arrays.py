"""The storage's arrays: reserved address space, reads by row, copies of row ranges, pickling of the parts in use."""

from copy import copy
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlher.her.layout import ACHIEVED, Layout, as_bytes, transitions_as_bytes
from rlher.her.ring import Ring
from rlher.her.trajectory import PackedEpisodes

Indices = NDArray[np.integer[Any]]

ROW_ARRAYS = ("rows", "achieved", "row_goal", "infos")

ARRAYS = {name: "rows_used" for name in ROW_ARRAYS} | {
    "slot_row": "slots_used",
    "first": "episodes_used",
    "last": "episodes_used",
    "episode_goal": "episodes_used",
}
"""Names of the arrays, each one block per environment, and the ring's attribute that counts the items written."""

MOVED_AT_ONCE = 65_536
"""Rows copied in one call: NumPy takes a temporary copy where source and target overlap."""


class TransitionArrays:
    """Arrays for the transitions of ``n_envs`` environments.

    An array takes address space when it is made, and memory when it is written to.

    :param capacity: maximum number of transitions per environment.
    :param n_envs: number of environments.
    :param observation_space: dictionary with ``achieved_goal``, ``desired_goal`` and any other keys.
    :param action_space: of one environment.
    :param spare: rows per environment in addition to one per transition. None: enough for episodes of one step each,
        where the system grants that much address space; with fewer, short episodes are evicted earlier.
    :param fixed: episodes that are never evicted, stored after the blocks of the environments.
    """

    def __init__(
        self,
        capacity: int,
        n_envs: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space,
        spare: int | None = None,
        fixed: PackedEpisodes | None = None,
    ) -> None:
        self.capacity, self.n_envs = capacity, n_envs
        self.layout = Layout.of(observation_space, action_space)
        self.keys = self.layout.keys
        self.spare = capacity + 2 if spare is None else spare
        self._allocate(fixed)

    def _allocate(self, fixed: PackedEpisodes | None) -> None:
        """Allocate the arrays, with fewer spare rows if the system refuses to reserve that much address space."""
        try:
            self._reserve(fixed)
        except MemoryError:
            if self.spare <= self.capacity // 8 + 2:
                raise
            self.spare = self.capacity // 8 + 2
            self._reserve(fixed)

    def _reserve(self, fixed: PackedEpisodes | None) -> None:
        for name in (*ARRAYS, "_transitions"):  # of a failed attempt
            self.__dict__.pop(name, None)
        self._rings = [Ring(env, self.capacity, self.spare) for env in range(self.n_envs)]
        self.first_fixed_row = self.n_envs * self._rings[0].n_rows
        self.first_fixed_episode = self.n_envs * self._rings[0].n_episodes
        rows = self.first_fixed_row + (0 if fixed is None else len(fixed.rows))
        episodes = self.first_fixed_episode + (0 if fixed is None else len(fixed.lengths))
        self.rows = np.zeros(rows, dtype=self.layout.row)
        self._transitions = transitions_as_bytes(self.rows, self.layout.transition)
        # In an array of its own, because goals of virtual transitions are read from rows all over the storage.
        self.achieved = self.layout.achieved_goals(rows)
        self.slot_row = np.zeros(self.n_envs * self.capacity, dtype=np.int64)
        self.first = np.zeros(episodes, dtype=np.int64)
        self.last = np.zeros(episodes, dtype=np.int64)
        self.episode_goal = self.layout.goals(episodes)
        self.row_goal: NDArray | None = None
        self.infos: NDArray | None = None
        self.fixed_rows = np.zeros(0, dtype=np.int64)
        if fixed is not None:
            self._store_fixed(fixed)

    @property
    def rings(self) -> list[Ring]:
        """The rings of the environments."""
        return self._rings

    def empty(self, capacity: int, spare: int) -> Any:
        """Return an empty storage for the same kind of transitions."""
        other = copy(self)
        other.capacity, other.spare = capacity, spare
        other._reserve(None)
        return other

    # ----------------------------------------------------------------------------------------- fixed episodes

    def _store_fixed(self, fixed: PackedEpisodes) -> None:
        """Write the episodes that are never evicted; :attr:`fixed_rows` are the rows of their transitions."""
        row, episode = self.first_fixed_row, self.first_fixed_episode
        self.rows[row:], self.achieved[row:] = fixed.rows, fixed.achieved
        self.rows["_episode"][row:] += episode
        self.last[episode:] = row + fixed.last
        self.first[episode:] = self.last[episode:] - fixed.lengths
        self.episode_goal[episode:] = fixed.goals[fixed.last - fixed.lengths]
        self.fixed_rows = row + fixed.transitions
        if (fixed.goals != self.episode_goal[self.rows["_episode"][row:]]).any():
            self.allocate_row_goals()[row:] = fixed.goals

    def fixed_episodes(self) -> PackedEpisodes | None:
        """Return the episodes that are never evicted; None: there are none."""
        if not len(self.fixed_rows):
            return None
        row, episode = self.first_fixed_row, self.first_fixed_episode
        rows, owners = self.rows[row:].copy(), self.rows["_episode"][row:]
        goals = self.goals(np.arange(row, len(self.rows)), owners)
        rows["_episode"] = owners - episode
        return PackedEpisodes(rows, self.achieved[row:].copy(), goals, self.last[episode:] - self.first[episode:])

    # ----------------------------------------------------------------------------------------------- reading

    @property
    def nbytes(self) -> int:
        """Bytes written to so far, and so the memory in use."""
        fixed = len(self.rows) - self.first_fixed_row
        written = sum(part.nbytes for parts in self.written().values() for part in parts)
        return written + fixed * self.layout.row_bytes

    def rows_of(self, slots: Indices) -> Indices:
        """Return the rows of those slots."""
        return self.slot_row.take(slots)

    def transitions(self, rows: Indices) -> NDArray:
        """Return (n,) pairs of the packed row at ``rows`` and the observation that follows it, read in one go."""
        return self._transitions[rows].view(self.layout.transition)

    def achieved_in(self, packed: NDArray, rows: Indices, exact: bool = False) -> NDArray:
        """Return the goals achieved at rows whose packed form was already read.

        :param packed: (n,) packed rows.
        :param rows: (n,) their indices.
        :param exact: at the environment's precision; False: that of a sample is enough.
        """
        in_row = self.layout.exact_in_row if exact else self.layout.in_row
        return packed[ACHIEVED] if in_row else self.achieved.take(rows, axis=0)

    def goals_achieved(self, rows: Indices) -> NDArray:
        """Return the goals achieved at those rows, with the type and shape of desired goals."""
        found = self.achieved.take(rows, axis=0)
        if self.layout.achieved == self.layout.goal:
            return found
        dtype, shape = self.layout.goal
        return found.astype(dtype).reshape(len(rows), *shape)

    def goals(self, rows: Indices, episodes: NDArray) -> NDArray:
        """Return the desired goals of those rows, which belong to those episodes."""
        if self.row_goal is not None:
            return self.row_goal.take(rows, axis=0)
        return self.episode_goal.take(episodes, axis=0)

    # ----------------------------------------------------------------------------------------------- writing

    def use_goal_per_row(self) -> None:
        """Change from one goal per episode to one per row."""
        row_goal = self.allocate_row_goals()
        rows = np.concatenate([self.rows_of(ring.newest(ring.count)) for ring in self.rings])
        row_goal[rows] = row_goal[rows + 1] = self.episode_goal[self.rows["_episode"][rows]]

    def allocate_row_goals(self) -> NDArray:
        """Make and return the array of one goal per row, filled in for the fixed episodes only."""
        self.row_goal = self.layout.goals(len(self.rows))
        fixed = slice(self.first_fixed_row, None)
        self.row_goal[fixed] = self.episode_goal[self.rows["_episode"][fixed]]
        return self.row_goal

    def copy_rows(self, source: int, target: int, count: int) -> None:
        """Copy ``count`` rows from ``source`` on to ``target`` on; the two ranges may overlap."""
        starts = range(0, count, MOVED_AT_ONCE)
        for array in (getattr(self, name) for name in ROW_ARRAYS):
            if array is None:
                continue
            array = array if array.dtype == object else as_bytes(array)
            for start in starts if target < source else reversed(starts):
                stop = min(start + MOVED_AT_ONCE, count)
                array[target + start : target + stop] = array[source + start : source + stop]

    # ---------------------------------------------------------------------------------------------- pickling

    def written(self) -> dict[str, list[NDArray]]:
        """Return, for each array, the part of each environment's block that has been written to, as views."""
        return {
            name: [
                block[: getattr(ring, ARRAYS[name])] for block, ring in zip(self._blocks(name), self.rings, strict=True)
            ]
            for name in ARRAYS
            if getattr(self, name) is not None
        }

    def _blocks(self, name: str) -> list[NDArray]:
        """Return the block of each environment in an array."""
        ends = {"rows_used": self.first_fixed_row, "episodes_used": self.first_fixed_episode}
        return np.split(getattr(self, name)[: ends.get(ARRAYS[name])], self.n_envs)

    def __getstate__(self) -> dict[str, Any]:
        """Keep only the part of each array that has been written to."""
        written = self.written()
        left_out = {*ARRAYS, "_transitions", "fixed_rows"}
        kept = {key: value for key, value in self.__dict__.items() if key not in left_out}
        return kept | {"written": written, "fixed": self.fixed_episodes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Reserve the address space again and restore the parts that had been written to."""
        written, fixed = state.pop("written"), state.pop("fixed", None)
        self.__dict__.update(state)
        rings = self._rings
        self._allocate(fixed)
        self._rings = rings
        if "row_goal" in written and self.row_goal is None:
            self.allocate_row_goals()
        if "infos" in written:
            self.infos = np.empty(len(self.rows), dtype=object)
        for name, blocks in self.written().items():
            for block, part in zip(blocks, written[name], strict=True):
                block[...] = part
