"""Virtual transitions of static episodes are left out: hier's ``state_check`` (arXiv:2312.09394).

While the object of a task does not move, every virtual goal is reached at once, whatever the agent does.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rlher.her.ring import Ring
from rlher.her.storage import Indices, Storage


class StaticEpisodes:
    """Finds static episodes, and draws batches without virtual transitions of them.

    An episode is static if each goal that it achieved so far lies within a distance of the first one. That follows
    from the storage alone, so nothing of it is saved.

    :param distance: Euclidean distance of two goals.
    :param storage: where the episodes are.
    """

    def __init__(self, distance: float, storage: Storage) -> None:
        self.distance = distance
        self.reset(storage)

    def reset(self, storage: Storage) -> None:
        """Reset for an empty storage."""
        self.storage = storage
        self.is_static = np.ones(len(storage.first), dtype=bool)  # by index of the episode
        self._finished = [0] * storage.n_envs  # per environment: finished episodes that are processed
        # Per environment: numbers of the first and the next transition of its running episode, as last processed.
        self._running = [(-1, -1)] * storage.n_envs

    def draw(
        self, count: int, n_sampled_goal: int, draw: Callable[[int], tuple[Indices, NDArray | None]]
    ) -> tuple[Indices, NDArray | None, int]:
        """Draw a batch as from a buffer that stores each transition and, of moving episodes, its virtual ones, too.

        :param count: size of the batch.
        :param n_sampled_goal: virtual transitions per real one.
        :param draw: returns that many slots, and importance weights if there are any.
        :return: slots, weights, and how many of them get virtual goals: the last ones.
        """
        self._update()
        slots, weights = draw(count * (1 + n_sampled_goal))
        rows = self.storage.rows_of(slots[count:])
        moving = np.flatnonzero(~self.is_static[self.storage.rows["_episode"][rows]])
        virtual = count * len(moving) // (count + len(moving))
        chosen = np.concatenate((np.arange(count - virtual), count + moving[:virtual]))
        if weights is not None:
            weights = weights[chosen] / weights[chosen].max()
        return slots[chosen], weights, virtual

    def _update(self) -> None:
        for env, ring in enumerate(self.storage.rings):
            since = max(self._finished[env], ring.dropped)
            if since < ring.finished:
                self._process_finished(ring, ring.episodes(since, ring.finished))
                self._finished[env] = ring.finished
            if ring.running:
                self._process_running(env, ring)

    def _process_finished(self, ring: Ring, episodes: Indices) -> None:
        first = self.storage.first[episodes]
        lengths = self.storage.last[episodes] - first
        stop = ring.total - self.storage.running_steps(ring)
        rows = self.storage.rows_of(ring.slots(stop - int(lengths.sum()), stop))
        far = self._is_far(rows + 1, np.repeat(first, lengths))
        self.is_static[episodes] = ~np.logical_or.reduceat(far, np.cumsum(lengths) - lengths)

    def _process_running(self, env: int, ring: Ring) -> None:
        episode = ring.episode
        first, last = int(self.storage.first[episode]), int(self.storage.last[episode])
        begin, (processed_begin, processed) = ring.total - (last - first), self._running[env]
        if begin != processed_begin:  # a new episode, or one that has lost its older half
            self.is_static[episode], processed = True, begin
        if self.is_static[episode] and processed < ring.total:
            rows = np.arange(last - (ring.total - processed), last) + 1
            self.is_static[episode] = not self._is_far(rows, np.full(len(rows), first)).any()
        self._running[env] = begin, ring.total

    def _is_far(self, rows: Indices, first: Indices) -> NDArray[np.bool_]:
        """Return (n,) whether the goals achieved at two rows are further apart than the distance."""
        goals, others = (self.storage.achieved.take(at, axis=0).astype(np.float64) for at in (rows, first))
        return np.linalg.norm((goals - others).reshape(len(rows), -1), axis=1) > self.distance
