"""Where transitions live: one packed row per observation, one ring of rows per environment.

An episode of T steps owns T + 1 consecutive rows. Row t holds the t-th observation with the action and reward
that followed it; the last row holds the final observation alone. So each observation is stored once, the
successor of row ``i`` is row ``i + 1``, and what a transition achieved is found at ``i + 1``. All fields of a
step lie side by side (a NumPy structured row), because at a million transitions a sample costs its cache
misses and little else.

Transitions are numbered by *slots*, a second ring without the gaps that final rows leave: the live ones of an
environment are an interval of slots, so a uniform draw is arithmetic and one look-up, whatever the capacity.

The desired goal is stored once an episode; the first environment that moves it in mid-episode (PointMaze's
continuing task does) switches the storage to one goal a row. Memory is address space until it is written to.
"""

import uuid
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlher.her.layout import ACHIEVED, Layout, plain
from rlher.her.ring import Ring
from rlher.her.staging import Stage

Indices = NDArray[np.integer[Any]]
Batch = dict[str, NDArray]

ARRAYS = {
    "rows": "rows_used",
    "achieved": "rows_used",
    "row_goal": "rows_used",
    "infos": "rows_used",
    "slot_row": "slots_used",
    "first": "episodes_used",
    "last": "episodes_used",
    "episode_goal": "episodes_used",
}
"""The storage's arrays, each one block per environment, and how much of a block a ring has used."""


class Storage:
    """Transitions of ``n_envs`` environments, with the oldest episodes evicted as a whole.

    :param capacity: transitions held per environment.
    :param n_envs: environments.
    :param observation_space: dictionary with ``achieved_goal``, ``desired_goal`` and any other keys.
    :param action_space: of one environment.
    :param spare: rows per environment beyond one a transition. None: enough for episodes of one step each, where the
        machine grants that much address space; with fewer, short episodes are evicted sooner.
    """

    def __init__(
        self,
        capacity: int,
        n_envs: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space,
        spare: int | None = None,
    ) -> None:
        self.capacity, self.n_envs = capacity, n_envs
        self.mark = uuid.uuid4().hex  # which transitions these are, for saves that write only what is new
        self.layout = Layout.of(observation_space, action_space)
        self.keys = self.layout.keys
        self.spare = capacity + 2 if spare is None else spare
        self._allocate()
        self._prepare_stage()
        self._before: list[bytes] = []  # what the stage had seen after the last step

    def _allocate(self) -> None:
        """Reserve address space; memory is taken when it is written to."""
        try:
            self._reserve()
        except MemoryError:  # a system refuses address space beyond its memory, which images can ask for
            if self.spare <= self.capacity // 8 + 2:
                raise
            self.spare = self.capacity // 8 + 2
            self._reserve()

    def _reserve(self) -> None:
        self._rings = [Ring(env, self.capacity, self.spare) for env in range(self.n_envs)]
        rows = self.n_envs * self._rings[0].n_rows
        episodes = self.n_envs * self._rings[0].n_episodes
        self.rows = np.zeros(rows, dtype=self.layout.row)
        # In an array of its own, because a virtual transition reads it at one row more, and nothing else of that.
        self.achieved = self.layout.achieved_goals(rows)
        self.slot_row = np.zeros(self.n_envs * self.capacity, dtype=np.int64)
        self.first = np.zeros(episodes, dtype=np.int64)
        self.last = np.zeros(episodes, dtype=np.int64)
        self.episode_goal = self.layout.goals(episodes)
        self.row_goal: NDArray | None = None
        self.infos: NDArray | None = None

    def _prepare_stage(self) -> None:
        """Make the place where a step is put together, and set the state of the quick path of :meth:`add`."""
        self._stage = stage = Stage(self.layout, self.n_envs)
        self._quick = self._lag = 0
        # NumPy assigns rows without fields ten times faster than structured ones.
        self._plain = [(plain(self.rows), plain(stage.rows)), (plain(self.achieved), plain(stage.achieved))]
        self._row = np.zeros(self.n_envs, dtype=np.int64)

    def empty(self, capacity: int, spare: int) -> "Storage":
        """Return an empty storage for the same kind of transitions."""
        other = copy(self)
        other.capacity, other.spare, other._before = capacity, spare, []
        other._reserve()
        other._prepare_stage()
        return other

    def written(self) -> dict[str, list[NDArray]]:
        """Return, for each array, the part of each environment's block that has been written to: views."""
        return {
            name: [
                block[: getattr(ring, used)]
                for block, ring in zip(np.split(getattr(self, name), self.n_envs), self.rings, strict=True)
            ]
            for name, used in ARRAYS.items()
            if getattr(self, name) is not None
        }

    def __getstate__(self) -> dict[str, Any]:
        """Keep of each array only what has been written to."""
        written = self.written()  # and the rings brought up to date by that
        quick = ("_stage", "_plain", "_quick", "_lag", "_row")
        kept = {key: value for key, value in self.__dict__.items() if key not in ARRAYS}
        return {key: value for key, value in kept.items() if key not in quick} | {"written": written}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Reserve the address space again and put back what had been written."""
        written = state.pop("written")
        self.__dict__.update(state)
        rings = self._rings
        self._allocate()
        self._rings = rings
        self._prepare_stage()
        if "row_goal" in written:
            self._goals_per_row()
        if "infos" in written:
            self.infos = np.empty(len(self.rows), dtype=object)
        for name, blocks in self.written().items():
            for block, part in zip(blocks, written[name], strict=True):
                block[...] = part

    # ------------------------------------------------------------------------------------------------ writing

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

        :param obs: (n_envs, …) observations; compared with the last ``next_obs``: where they differ, the
            environment was reset in between, and a new episode begins.
        :param next_obs: (n_envs, …) observations after the step, the final one where the episode ended.
        :param action: (n_envs, …) actions.
        :param reward: (n_envs,) rewards.
        :param terminated: (n_envs,) whether the step is terminal, time-outs excepted.
        :param ended: numbers of the environments whose episode ended, for whatever reason.
        :param infos: kept for ``compute_reward`` if given.
        :param lost: those among ``ended`` whose step is not to be stored; their episodes end before it.
        """
        stage = self._stage
        stage.observe(obs)
        seen = stage.seen()
        if self._quick <= 0 or seen != self._before:
            self._prepare(seen)
        own, before = stage.own, self._row
        self._row = before + 1
        own["_action"][...] = action if action.shape == own["_action"].shape else action.reshape(own["_action"].shape)
        own["_reward"][...] = reward
        own["_terminated"][...] = terminated
        (rows, staged), (achieved, staged_achieved) = self._plain
        rows[before] = staged
        stage.observe(next_obs)
        rows[self._row] = staged
        achieved[self._row] = staged_achieved
        self._lag += 1
        self._quick -= 1
        self._before = stage.seen()
        if self.row_goal is not None or self._before[1] != seen[1]:
            self._store_goals()
        if infos is not None:
            self._store_infos(before, infos)
        for env in ended:
            self.rings[env].end_episode()
            self._quick = 0
        for env in lost:
            self._take_back(env)

    def _take_back(self, env: int) -> None:
        """Forget the step just stored of an environment, and its episode where that was the only one."""
        ring = self.rings[env]
        ring.take_back_step()
        self.last[ring.episode] = ring.row
        if ring.row == self.first[ring.episode]:
            ring.take_back_episode()

    @property
    def rings(self) -> list[Ring]:
        """The rings, brought up to date with the steps that needed no bookkeeping."""
        lag, self._lag = self._lag, 0
        for ring in self._rings if lag else ():
            slot = ring.next_slot
            self.slot_row[slot : slot + lag] = np.arange(ring.row, ring.row + lag)
            ring.advance(lag)
            self.last[ring.episode] = ring.row
        return self._rings

    def _prepare(self, seen: list[bytes]) -> None:
        """Begin episodes and make room, then count the steps for which nothing of this is needed again."""
        share = self._stage.share
        for env, ring in enumerate(self.rings):
            if ring.running and share(seen, env) != share(self._before, env):
                ring.end_episode()
            if not ring.running:
                self._begin(ring, env)
            self._make_room(ring)
            self._row[env], self._stage.own["_episode"][env] = ring.row, ring.episode
        self._quick = min(self._room(ring) for ring in self._rings)

    def _begin(self, ring: Ring, env: int) -> None:
        ring.begin_episode()
        self.first[ring.episode] = self.last[ring.episode] = ring.row
        self.achieved[ring.row] = self._stage.achieved[env]
        self.episode_goal[ring.episode] = self._stage.goal[env]
        if self.row_goal is not None:
            self.row_goal[ring.row] = self._stage.goal[env]

    def _make_room(self, ring: Ring) -> None:
        """Let go of what is in the way of one more step."""
        if ring.rows_left == 0:
            self._move_to_front(ring)
        while ring.has_finished and (ring.count >= ring.capacity or self._rows_ahead(ring) == 0):
            self.drop_oldest(ring)
        if ring.count >= ring.capacity:
            # One episode fills the whole ring: its older half is let go, as if it had begun later.
            self.first[ring.episode] += ring.drop_half()

    def _rows_ahead(self, ring: Ring) -> int:
        """Return the rows free up to the oldest episode if it lies ahead, else up to the last row."""
        oldest = self.first[ring.oldest_episode]
        in_the_way = ring.has_finished and oldest >= self.first[ring.episode]
        return max(0, int(oldest) - ring.row - 1) if in_the_way else ring.rows_left

    def _room(self, ring: Ring) -> int:
        """Return the steps that the running episode can take as things are."""
        slots = ring.base_slot + ring.capacity - ring.next_slot
        return min(ring.capacity - ring.count, self._rows_ahead(ring), ring.rows_left, slots)

    def drop_oldest(self, ring: Ring) -> None:
        """Evict the oldest episode of a ring."""
        oldest = ring.oldest_episode
        ring.drop_oldest(int(self.last[oldest] - self.first[oldest]))

    def _move_to_front(self, ring: Ring) -> None:
        """Move a running episode that reached the last row to the first ones."""
        first, last = int(self.first[ring.episode]), int(self.last[ring.episode])
        front, length = ring.base_row, last - first
        while ring.has_finished and self.first[ring.oldest_episode] <= front + length:
            self.drop_oldest(ring)
        for array in (self.rows, self.achieved, self.row_goal, self.infos):
            if array is not None:
                array[front : front + length + 1] = array[first : last + 1]
        self.first[ring.episode], self.last[ring.episode] = front, front + length
        ring.move_to_front(length)
        self.slot_row[ring.newest(length)] = front + np.arange(length)

    def _store_goals(self) -> None:
        if self.row_goal is None:
            self._goals_per_row()
        assert self.row_goal is not None
        self.row_goal[self._row] = self._stage.goal

    def _goals_per_row(self) -> None:
        """Change from one goal an episode to one a row."""
        self.row_goal = self.layout.goals(len(self.rows))
        live = np.concatenate([self.rows_of(ring.newest(ring.count)) for ring in self.rings])
        self.row_goal[live] = self.row_goal[live + 1] = self.episode_goal[self.rows["_episode"][live]]

    def _store_infos(self, rows: Indices, infos: list[dict[str, Any]]) -> None:
        if self.infos is None:
            self.infos = np.empty(len(self.rows), dtype=object)
        for row, info in zip(rows, infos, strict=True):
            self.infos[row] = {key: value for key, value in info.items() if "terminal_observation" not in key}

    def extend(self, env: int, rows: NDArray, achieved: NDArray, goals: NDArray) -> None:
        """Store an episode of one environment, or as far as it got, at once.

        :param env: its number.
        :param rows: (steps + 1,) packed rows.
        :param achieved: (steps + 1, …) achieved goals.
        :param goals: (steps + 1, …) desired goals.
        """
        ring = self.rings[env]
        self._stage.achieved[env], self._stage.goal[env] = achieved[0], goals[0]
        self._begin(ring, env)
        if self.row_goal is None and (goals != self.episode_goal[ring.episode]).any():
            self._goals_per_row()
        at, steps = 0, len(rows) - 1
        while at < steps:
            self._make_room(ring)
            count = min(steps - at, self._room(ring))
            here, there = slice(ring.row, ring.row + count + 1), slice(at, at + count + 1)
            self.rows[here], self.achieved[here] = rows[there], achieved[there]
            self.rows["_episode"][here] = ring.episode
            if self.row_goal is not None:
                self.row_goal[here] = goals[there]
            self.slot_row[ring.numbered(ring.total, ring.total + count)] = ring.row + np.arange(count)
            ring.advance(count)
            self.last[ring.episode] = ring.row
            at += count
        self.resume()

    def resume(self) -> None:
        """Take the newest observations for those seen last, so that running episodes can go on."""
        rows = np.array([ring.row for ring in self.rings]).clip(0)
        self._stage.rows[...] = self.rows[rows]
        self._stage.achieved[...] = self.achieved[rows]
        self._stage.goal[...] = self.goals(rows, np.array([ring.episode for ring in self.rings]))
        self._before, self._quick = self._stage.seen(), 0

    def running_steps(self, ring: Ring) -> int:
        """Return how many steps held are of a ring's running episode."""
        return int(self.last[ring.episode] - self.first[ring.episode]) if ring.running else 0

    def truncate_running(self) -> bool:
        """End every running episode as a time-out would; return whether there was one."""
        running = [ring for ring in self.rings if ring.running]
        for ring in running:
            ring.end_episode()
        self._quick = 0
        return bool(running)

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def count(self) -> int:
        """Transitions held, over all environments."""
        rings = self.rings
        return rings[0].count if len(rings) == 1 else sum(ring.count for ring in rings)

    @property
    def nbytes(self) -> int:
        """Bytes written to so far: what the storage takes of the machine's memory."""
        return sum(part.nbytes for parts in self.written().values() for part in parts)

    def draw(self, count: int, rng: np.random.Generator) -> Indices:
        """Return (count,) slots, uniform over the transitions held."""
        rings = self.rings
        if self.n_envs == 1:
            held, start = rings[0].count, (rings[0].total - rings[0].count) % self.capacity
            slots = (rng.random(count) * held).astype(np.int64)  # three times as fast as rng.integers
            if start:
                slots += start
            if start + held > self.capacity:
                slots[slots >= self.capacity] -= self.capacity
            return slots
        counts = np.array([ring.count for ring in rings])
        ends = np.cumsum(counts)
        number = (rng.random(count) * ends[-1]).astype(np.int64)
        env = np.searchsorted(ends, number, side="right")
        starts = np.array([ring.total for ring in rings]) - ends  # of its oldest, less those before it
        return env * self.capacity + (starts[env] + number) % self.capacity

    def rows_of(self, slots: Indices) -> Indices:
        """Return the rows of those slots."""
        return self.slot_row.take(slots)

    def achieved_at(self, rows: Indices, packed: NDArray) -> NDArray:
        """Return what was achieved at rows whose packed form is at hand.

        :param rows: (n,) rows.
        :param packed: (n,) what they hold.
        """
        return packed[ACHIEVED] if self.layout.in_row else self.achieved.take(rows, axis=0)

    def goals_achieved(self, rows: Indices) -> NDArray:
        """Return what was achieved at those rows, as desired goals."""
        found = self.achieved.take(rows, axis=0)
        if self.layout.achieved == self.layout.goal:
            return found
        dtype, shape = self.layout.goal
        return found.astype(dtype).reshape(len(rows), *shape)

    def goals(self, rows: Indices, episodes: NDArray) -> NDArray:
        """Return the goals desired at those rows of those episodes."""
        if self.row_goal is not None:
            return self.row_goal.take(rows, axis=0)
        return self.episode_goal.take(episodes, axis=0)
