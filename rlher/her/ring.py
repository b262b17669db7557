"""The bookkeeping of one environment's ring: which rows, slots and episodes are live. It touches no data."""

import numpy as np
from numpy.typing import NDArray


class Ring:
    """Rows, slots and episode numbers of one environment, all global (offset by what other environments own).

    Rows are taken in order and start again at the front with the first episode that begins after a *lap* of
    ``capacity`` transitions, so an episode's rows are consecutive, always.

    :param env: number of the environment.
    :param capacity: transitions it may hold.
    :param spare: rows beyond one a transition, for the final observations of episodes: two at least.
    """

    def __init__(self, env: int, capacity: int, spare: int) -> None:
        self.capacity = capacity
        self.n_rows = capacity + spare
        self.n_episodes = capacity + 2
        self.base_row, self.base_slot = env * self.n_rows, env * capacity
        self.base_episode = env * self.n_episodes
        self.row = self.base_row - 1  # newest row written
        self.lap = 0  # transitions since the ring last started at the front
        self.count = 0  # transitions held
        self.total = 0  # transitions ever taken: the next one's number
        self.begun = 0  # episodes ever begun
        self.dropped = 0  # episodes ever evicted
        self.running = False
        self.rows_used = 0

    @property
    def episode(self) -> int:
        """Number of the newest episode."""
        return self.base_episode + (self.begun - 1) % self.n_episodes

    @property
    def oldest_episode(self) -> int:
        """Number of the oldest episode held."""
        return self.base_episode + self.dropped % self.n_episodes

    @property
    def has_finished(self) -> bool:
        """Whether an episode older than the newest is held."""
        return self.begun - self.dropped > 1

    @property
    def next_slot(self) -> int:
        """Slot of the next transition."""
        return self.base_slot + self.total % self.capacity

    @property
    def rows_left(self) -> int:
        """Rows up to the ring's last one."""
        return self.base_row + self.n_rows - 1 - self.row

    @property
    def slots_used(self) -> int:
        """Slots ever written."""
        return min(self.total, self.capacity)

    @property
    def episodes_used(self) -> int:
        """Episode numbers ever used."""
        return min(self.begun, self.n_episodes)

    def begin_episode(self) -> None:
        """Take a row for a first observation."""
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
        self.rows_used = max(self.rows_used, self.row + 1 - self.base_row)

    def end_episode(self) -> None:
        """Mark the running episode as finished."""
        self.running = False

    def take_back_step(self) -> None:
        """Forget the newest step."""
        self.row, self.lap = self.row - 1, self.lap - 1
        self.count, self.total = self.count - 1, self.total - 1

    def take_back_episode(self) -> None:
        """Forget the newest episode, which has no step left."""
        self.row -= 1
        self.begun -= 1

    def move_to_front(self, length: int) -> None:
        """Have the running episode, of that many steps, own the first rows."""
        self.row, self.lap = self.base_row + length, length

    def drop_oldest(self, steps: int) -> None:
        """Let go of the oldest episode, which has that many steps."""
        self.dropped += 1
        self.count -= steps

    def drop_half(self) -> int:
        """Let go of the older half of all transitions held; return how many that was."""
        gone = (self.count + 1) // 2
        self.count -= gone
        return gone

    def numbered(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the slots of the transitions numbered ``start`` to ``stop - 1`` since the beginning."""
        return self.base_slot + np.arange(start, stop) % self.capacity

    def newest(self, count: int) -> NDArray[np.int64]:
        """Return the slots of the newest ``count`` transitions, oldest first."""
        return self.numbered(self.total - count, self.total)

    def fresh(self, since: int) -> tuple[int, int]:
        """Return the range of numbers of the transitions taken since that number and held still."""
        return max(since, self.total - self.count), self.total
