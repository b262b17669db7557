"""Index arithmetic of one environment's ring: which rows, slots and episodes are in use. It touches no data."""

import numpy as np
from numpy.typing import NDArray


class Ring:
    """Rows, slots and episode numbers of one environment, as global indices.

    Rows are taken in order. The first episode that begins after a *lap* of ``capacity`` transitions starts at the
    first row again, so the rows of an episode are always consecutive.

    :param env: number of the environment.
    :param capacity: maximum number of transitions.
    :param spare: rows in addition to one per transition, for the final observations of episodes; at least 2.
    """

    def __init__(self, env: int, capacity: int, spare: int) -> None:
        self.capacity = capacity
        self.n_rows = capacity + spare
        self.n_episodes = capacity + 2
        self.base_row, self.base_slot = env * self.n_rows, env * capacity
        self.base_episode = env * self.n_episodes
        self.row = self.base_row - 1  # newest row written
        self.lap = 0  # transitions since the ring last started at its first row
        self.count = 0  # transitions held
        self.total = 0  # transitions ever added, and so the number of the next one
        self.begun = 0  # episodes ever begun
        self.dropped = 0  # episodes ever evicted
        self.running = False
        self.rows_used = 0

    @property
    def episode(self) -> int:
        """Index of the newest episode."""
        return self.base_episode + (self.begun - 1) % self.n_episodes

    @property
    def oldest_episode(self) -> int:
        """Index of the oldest episode held."""
        return self.base_episode + self.dropped % self.n_episodes

    @property
    def finished(self) -> int:
        """Number of episodes ever finished, evicted ones included."""
        return self.begun - self.running

    @property
    def has_older(self) -> bool:
        """Whether an episode older than the newest one is held."""
        return self.begun - self.dropped > 1

    @property
    def next_slot(self) -> int:
        """Slot of the next transition."""
        return self.base_slot + self.total % self.capacity

    @property
    def rows_left(self) -> int:
        """Number of rows after the newest one, up to the ring's last row."""
        return self.base_row + self.n_rows - 1 - self.row

    @property
    def slots_used(self) -> int:
        """Number of slots ever written."""
        return min(self.total, self.capacity)

    @property
    def episodes_used(self) -> int:
        """Number of episode indices ever used."""
        return min(self.begun, self.n_episodes)

    def begin_episode(self) -> None:
        """Take a row for the first observation of a new episode."""
        if self.lap >= self.capacity or self.rows_left < 2:
            self.row, self.lap = self.base_row - 1, 0
        self.begun += 1
        self.running = True
        self._take_rows(1)

    def advance(self, steps: int) -> None:
        """Take rows and slots for steps of the running episode."""
        self.count += steps
        self.total += steps
        self.lap += steps
        self._take_rows(steps)

    def _take_rows(self, rows: int) -> None:
        self.row += rows
        self.use_rows_up_to(self.row)

    def use_rows_up_to(self, row: int) -> None:
        """Count all rows up to this one as written."""
        self.rows_used = max(self.rows_used, row + 1 - self.base_row)

    def end_episode(self) -> None:
        """Mark the running episode as finished."""
        self.running = False

    def take_back_step(self) -> None:
        """Remove the newest step."""
        self.row, self.lap = self.row - 1, self.lap - 1
        self.count, self.total = self.count - 1, self.total - 1

    def take_back_episode(self) -> None:
        """Remove the newest episode, which has no step left."""
        self.row -= 1
        self.begun -= 1

    def move_to_front(self, length: int) -> None:
        """Assign the first rows to the running episode, which has ``length`` steps."""
        self.row, self.lap = self.base_row + length, length

    def drop_oldest(self, steps: int) -> None:
        """Evict the oldest episode, which has that many steps."""
        self.dropped += 1
        self.count -= steps

    def drop_half(self) -> int:
        """Evict the older half of all transitions held; return their number."""
        evicted = (self.count + 1) // 2
        self.count -= evicted
        return evicted

    def episodes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the indices of the episodes numbered ``start`` to ``stop - 1`` since the beginning."""
        return self.base_episode + np.arange(start, stop) % self.n_episodes

    def slots(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the slots of the transitions numbered ``start`` to ``stop - 1`` since the beginning."""
        return self.base_slot + np.arange(start, stop) % self.capacity

    def newest(self, count: int) -> NDArray[np.int64]:
        """Return the slots of the newest ``count`` transitions, oldest first."""
        return self.slots(self.total - count, self.total)

    def held_since(self, number: int) -> tuple[int, int]:
        """Return the range of numbers of the transitions held that were added at ``number`` or later."""
        return max(number, self.total - self.count), self.total
