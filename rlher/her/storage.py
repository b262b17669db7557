"""The storage of transitions: one packed row per observation, one ring of rows per environment.

An episode of T steps owns T + 1 consecutive rows. Row t holds the t-th observation with the action and reward that
followed it; the last row holds the final observation alone. Each observation is therefore stored once, the successor
of row ``i`` is row ``i + 1``, and the outcome of a transition is found at ``i + 1``. All fields of a step lie side by
side, because at a million transitions the time of a sample is the time of its cache misses.

Transitions are numbered by *slots*, a second ring without the gaps that final rows leave. The slots in use of an
environment are an interval, so a uniform draw is arithmetic and one look-up, whatever the capacity.

The desired goal is stored once per episode. The first environment that moves it within an episode (as PointMaze's
continuing task does) switches the storage to one goal per row.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlher.her.arrays import Indices, TransitionArrays
from rlher.her.layout import as_bytes
from rlher.her.ring import Ring
from rlher.her.staging import Stage
from rlher.her.trajectory import PackedEpisodes

Batch = dict[str, NDArray]

NEARLY_FULL = 0.99
"""Share of the capacity below which rows are moved to make room, instead of evicting an episode early."""

GROWTH = 32
"""Rows are moved by this part of the rows in use: few moves, and at most 3 % more memory than needed."""


class Storage(TransitionArrays):
    """Transitions of ``n_envs`` environments, of which the oldest episodes are evicted as a whole.

    The parameters are those of :class:`~rlher.her.arrays.TransitionArrays`.

    :param sample_running: whether steps of running episodes can be drawn.
    """

    goal_slots = 1
    """Slots of a goal; the first one is the task's, see :mod:`rlher.her.goal_slots`."""

    def __init__(
        self,
        capacity: int,
        n_envs: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space,
        spare: int | None = None,
        sample_running: bool = True,
        fixed: PackedEpisodes | None = None,
    ) -> None:
        super().__init__(capacity, n_envs, observation_space, action_space, spare, fixed)
        self.sample_running = sample_running
        self._reset_writer()

    def _reset_writer(self) -> None:
        """Set the state that :meth:`add` keeps between two steps."""
        self.saves: deque[str] = deque(maxlen=100)  # ids of the saves that hold an earlier state of this storage
        self._before: list[bytes] = []  # observations of the last step, for comparison
        self._prepare_stage()

    def _prepare_stage(self) -> None:
        self._stage = stage = Stage(self.layout, self.n_envs)
        self._quick = self._lag = 0  # steps that need no ring update: still possible, and done since the last update
        self._byte_views = [
            (as_bytes(self.rows), as_bytes(stage.rows)),
            (as_bytes(self.achieved), as_bytes(stage.achieved)),
        ]
        self._row = np.zeros(self.n_envs, dtype=np.int64)

    def empty(self, capacity: int, spare: int) -> "Storage":
        """Return an empty storage for the same kind of transitions."""
        other: Storage = super().empty(capacity, spare)
        other.goal_slots = self.goal_slots
        other._reset_writer()
        return other

    def task_goals(self, rows: Indices) -> NDArray[np.float64]:
        """Return (n, size) the achieved goals of rows, of several slots the first one."""
        achieved = self.achieved.take(rows, axis=0).reshape(len(rows), -1)
        return achieved[:, : achieved.shape[1] // self.goal_slots].astype(np.float64)

    def __getstate__(self) -> dict[str, Any]:
        """Keep only the part of each array that has been written to."""
        state = super().__getstate__()
        return {key: state[key] for key in state.keys() - {"_stage", "_byte_views", "_quick", "_lag", "_row"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore an unpickled storage."""
        self._lag = 0
        super().__setstate__(state)
        self._prepare_stage()

    # ------------------------------------------------------------------------------------------------ adding

    def add(
        self,
        obs: Batch,
        next_obs: Batch,
        action: NDArray,
        reward: NDArray,
        terminated: NDArray | bool,
        ended: Sequence[int],
        infos: list[dict[str, Any]] | None = None,
        lost: Sequence[int] = (),
    ) -> None:
        """Store one transition of every environment.

        :param obs: (n_envs, …) observations. Where they differ from the last ``next_obs``, the environment was reset
            in between, and a new episode begins.
        :param next_obs: (n_envs, …) observations after the step; the final ones where the episode ended.
        :param action: (n_envs, …) actions.
        :param reward: (n_envs,) rewards.
        :param terminated: (n_envs,) whether the step is terminal, time-outs excepted.
        :param ended: numbers of the environments whose episode ended, for whatever reason.
        :param infos: stored for ``compute_reward`` if given.
        :param lost: those of ``ended`` whose step is not stored; their episodes end before it.
        """
        stage = self._stage
        stage.observe(obs)
        observed = stage.observed()
        if self._quick <= 0 or observed != self._before:
            self._prepare(observed)
        stage.write(action, reward, terminated)
        before = self._row
        self._row = after = before + 1
        (rows, staged), (achieved, staged_achieved) = self._byte_views
        rows[before] = staged
        stage.observe(next_obs)
        rows[after], achieved[after] = staged, staged_achieved
        self._lag += 1
        self._quick -= 1
        self._before = stage.observed()
        if self.row_goal is not None or self._before[1] != observed[1]:
            self._store_goals()
        if infos is not None:
            self._store_infos(before, infos)
        if ended:
            self._end_episodes(ended, lost)

    def _end_episodes(self, ended: Sequence[int], lost: Sequence[int]) -> None:
        for env in ended:
            self.rings[env].end_episode()
        for env in lost:
            self._take_back(env)
        self._quick = 0

    def _take_back(self, env: int) -> None:
        """Remove the step just stored of an environment, and its episode if that was its only step."""
        ring = self.rings[env]
        ring.take_back_step()
        self.last[ring.episode] = ring.row
        if ring.row == self.first[ring.episode]:
            ring.take_back_episode()

    @property
    def rings(self) -> list[Ring]:
        """The rings, updated with all steps done."""
        lag, self._lag = self._lag, 0
        for ring in self._rings if lag else ():
            slot = ring.next_slot
            self.slot_row[slot : slot + lag] = np.arange(ring.row, ring.row + lag)
            ring.advance(lag)
            self.last[ring.episode] = ring.row
        return self._rings

    def _prepare(self, observed: list[bytes]) -> None:
        """Begin episodes, make room, and count the following steps that need neither."""
        part = self._stage.part_of_env
        for env, ring in enumerate(self.rings):
            if ring.running and part(observed, env) != part(self._before, env):
                ring.end_episode()
            if not ring.running:
                self._begin(ring, env)
            self._make_room(ring)
            self._row[env], self._stage.episode[env] = ring.row, ring.episode
        self._quick = min(self._room(ring) for ring in self._rings)

    def _begin(self, ring: Ring, env: int) -> None:
        ring.begin_episode()
        self.first[ring.episode] = self.last[ring.episode] = ring.row
        self._make_room(ring)  # the row may still hold the oldest episode
        self.achieved[ring.row] = self._stage.achieved[env]
        self.episode_goal[ring.episode] = self._stage.goal[env]
        if self.row_goal is not None:
            self.row_goal[ring.row] = self._stage.goal[env]

    def _store_goals(self) -> None:
        if self.row_goal is None:
            self.use_goal_per_row()
        assert self.row_goal is not None
        self.row_goal[self._row] = self._stage.goal

    def _store_infos(self, rows: Indices, infos: list[dict[str, Any]]) -> None:
        if self.infos is None:
            self.infos = np.empty(len(self.rows), dtype=object)
        for row, info in zip(rows, infos, strict=True):
            self.infos[row] = {key: value for key, value in info.items() if "terminal_observation" not in key}

    def extend(self, env: int, rows: NDArray, achieved: NDArray, goals: NDArray) -> None:
        """Store several steps of one environment at once, as a new episode that is left running.

        :param env: number of the environment.
        :param rows: (steps + 1,) packed rows.
        :param achieved: (steps + 1, …) achieved goals.
        :param goals: (steps + 1, …) desired goals.
        """
        ring = self.rings[env]
        self._stage.achieved[env], self._stage.goal[env] = achieved[0], goals[0]
        self._begin(ring, env)
        if self.row_goal is None and (goals != self.episode_goal[ring.episode]).any():
            self.use_goal_per_row()
        at, steps = 0, len(rows) - 1
        while at < steps:
            self._make_room(ring)
            count = min(steps - at, self._room(ring))
            here, there = slice(ring.row, ring.row + count + 1), slice(at, at + count + 1)
            self.rows[here] = rows[there]
            self.achieved[here] = achieved[there]
            self.rows["_episode"][here] = ring.episode
            if self.row_goal is not None:
                self.row_goal[here] = goals[there]
            self.slot_row[ring.slots(ring.total, ring.total + count)] = ring.row + np.arange(count)
            ring.advance(count)
            self.last[ring.episode] = ring.row
            at += count
        self.resume()

    def resume(self) -> None:
        """Take the newest stored observations as those of the last step, so that running episodes continue."""
        rows = np.array([ring.row for ring in self.rings]).clip(0)
        self._stage.rows[...] = self.rows[rows]
        self._stage.achieved[...] = self.achieved[rows]
        self._stage.goal[...] = self.goals(rows, np.array([ring.episode for ring in self.rings]))
        self._before, self._quick = self._stage.observed(), 0

    def running_steps(self, ring: Ring) -> int:
        """Return how many of the steps held belong to a ring's running episode."""
        return int(self.last[ring.episode] - self.first[ring.episode]) if ring.running else 0

    def truncate_running(self, terminated: bool = False) -> bool:
        """End every running episode; return whether there was one.

        :param terminated: store the last step as terminal; False: as a time-out.
        """
        running = [ring for ring in self.rings if ring.running]
        for ring in running:
            if terminated and self.running_steps(ring):
                self.rows["_terminated"][ring.row - 1] = True
            ring.end_episode()
        self._quick = 0
        return bool(running)

    # ----------------------------------------------------------------------------------------- making room

    def _make_room(self, ring: Ring) -> None:
        """Free a row and a slot for one more step."""
        if ring.rows_left == 0:
            self._move_to_front(ring)
        while ring.has_older and (ring.count >= ring.capacity or self._rows_ahead(ring) == 0):
            if ring.count >= NEARLY_FULL * ring.capacity or not self._move_older(ring):
                self._drop_oldest(ring)
        if ring.count >= ring.capacity:
            # One episode fills the whole ring: its older half is evicted, as if it had begun later.
            self.first[ring.episode] += ring.drop_half()

    def _rows_ahead(self, ring: Ring) -> int:
        """Return the number of free rows up to the oldest episode if that lies ahead, else up to the last row."""
        oldest = self.first[ring.oldest_episode]
        is_ahead = ring.has_older and oldest >= self.first[ring.episode]
        return max(0, int(oldest) - ring.row - 1) if is_ahead else ring.rows_left

    def _room(self, ring: Ring) -> int:
        """Return how many steps the running episode can take without a ring update."""
        slots = ring.base_slot + ring.capacity - ring.next_slot
        return min(ring.capacity - ring.count, self._rows_ahead(ring), ring.rows_left, slots)

    def _drop_oldest(self, ring: Ring) -> None:
        oldest = ring.oldest_episode
        ring.drop_oldest(int(self.last[oldest] - self.first[oldest]))

    def _move_to_front(self, ring: Ring) -> None:
        """Move a running episode that reached the last row to the first rows."""
        first, last = int(self.first[ring.episode]), int(self.last[ring.episode])
        front, length = ring.base_row, last - first
        while ring.has_older and self.first[ring.oldest_episode] <= front + length:
            self._drop_oldest(ring)
        self.copy_rows(first, front, length + 1)
        self.first[ring.episode], self.last[ring.episode] = front, front + length
        ring.move_to_front(length)
        self.slot_row[ring.newest(length)] = front + np.arange(length)

    def _move_older(self, ring: Ring) -> bool:
        """Move the episodes ahead of the running one towards the last row; return False where no row is left there.

        Shorter episodes than in the previous lap need more final rows than those episodes free.
        """
        older = ring.episodes(ring.dropped, ring.begun - 1)
        older = older[self.first[older] >= self.first[ring.episode]]
        if not len(older):
            return False
        first, last = int(self.first[older[0]]), int(self.last[older[-1]])
        by = min(ring.base_row + ring.n_rows - 1 - last, max(ring.rows_used // GROWTH, 64))
        if by < 1:
            return False
        self.copy_rows(first, first + by, last - first + 1)
        steps = int((self.last[older] - self.first[older]).sum())
        self.first[older] += by
        self.last[older] += by
        oldest = ring.total - ring.count
        self.slot_row[ring.slots(oldest, oldest + steps)] += by
        ring.use_rows_up_to(last + by)
        self.saves.clear()  # they contain the previous positions of these rows
        return True

    # ----------------------------------------------------------------------------------------------- drawing

    @property
    def count(self) -> int:
        """Transitions held, over all environments."""
        rings = self.rings
        return rings[0].count if len(rings) == 1 else sum(ring.count for ring in rings)

    @property
    def n_drawable(self) -> int:
        """Transitions that can be drawn, over all environments."""
        running = 0 if self.sample_running else sum(self.running_steps(ring) for ring in self.rings)
        return self.count - running

    def drawable(self, ring: Ring) -> tuple[int, int]:
        """Return the range of numbers of a ring's transitions that can be drawn."""
        return ring.total - ring.count, ring.total - (0 if self.sample_running else self.running_steps(ring))

    def draw(self, count: int, rng: np.random.Generator) -> Indices:
        """Return (count,) slots, uniformly over the transitions that can be drawn."""
        rings = self.rings
        if self.n_envs == 1:
            start, stop = self.drawable(rings[0])
            held, start = stop - start, start % self.capacity
            slots = (rng.random(count) * held).astype(np.int64)  # three times as fast as rng.integers
            if start:
                slots += start
            if start + held > self.capacity:
                slots[slots >= self.capacity] -= self.capacity
            return slots
        starts, stops = np.array([self.drawable(ring) for ring in rings]).T
        ends = np.cumsum(stops - starts)
        number = (rng.random(count) * ends[-1]).astype(np.int64)
        env = np.searchsorted(ends, number, side="right")
        offset = stops - ends  # of its oldest transition, minus those of the environments before it
        return env * self.capacity + (offset[env] + number) % self.capacity

    def draw_fixed(self, count: int, rng: np.random.Generator) -> Indices:
        """Return (count,) rows, uniformly over the transitions of the fixed episodes."""
        return self.fixed_rows.take((rng.random(count) * len(self.fixed_rows)).astype(np.int64))

    def draw_rows(self, count: int, rng: np.random.Generator) -> Indices:
        """Return (count,) rows of transitions as :meth:`draw` draws them; of fixed ones while there are no others."""
        return self.rows_of(self.draw(count, rng)) if self.n_drawable else self.draw_fixed(count, rng)

    def ids_of(self, slots: Indices) -> Indices:
        """Return ids of the transitions in those slots, which no later transition has."""
        env, slot = np.divmod(slots, self.capacity)
        newest = np.array([ring.total for ring in self.rings])[env] - 1
        return (newest - (newest - slot) % self.capacity) * self.n_envs + env

    def slots_of(self, ids: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the slots of the transitions with those ids, and whether each is still held."""
        number, env = np.divmod(ids, self.n_envs)
        total, count = np.array([(ring.total, ring.count) for ring in self.rings]).T
        held = (number >= total[env] - count[env]) & (number < total[env])
        return env * self.capacity + number % self.capacity, held
