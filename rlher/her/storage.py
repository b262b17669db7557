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

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlher.her.ring import Ring

Indices = NDArray[np.int64]
Batch = dict[str, NDArray]

GOAL = "desired_goal"
OWN = "_"  # prefix of the fields that are not observations
TERMINATED = 1
STEP = 2
"""Flag of a row whose action and reward are written, that is, which is a transition."""

ARRAYS = {
    "rows": "rows_used",
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
    :param observation_space: dictionary with ``achieved_goal``, ``desired_goal`` and any other keys; float64
        is stored as float32, every other type as it is (images stay uint8).
    :param action_space: of one environment.
    """

    def __init__(
        self, capacity: int, n_envs: int, observation_space: spaces.Dict, action_space: spaces.Space
    ) -> None:
        self.capacity, self.n_envs = capacity, n_envs
        self.shapes = {key: _shape(space) for key, space in observation_space.spaces.items()}
        dtypes = {key: _small(space.dtype) for key, space in observation_space.spaces.items()}
        self.goal_dtype, self.goal_shape = dtypes[GOAL], self.shapes[GOAL]
        # The achieved goal first: then the goal of a virtual transition costs one cache line.
        self.keys = ["achieved_goal", *(key for key in self.shapes if key not in ("achieved_goal", GOAL))]
        action_shape = action_space.shape if action_space.shape else (1,)
        self.dtype = np.dtype(
            [(key, dtypes[key], self.shapes[key]) for key in self.keys]
            + [
                ("_action", _small(action_space.dtype), (int(np.prod(action_shape)),)),
                ("_reward", np.float32),
                ("_rest", np.float32),
                ("_episode", np.int32),
                ("_flags", np.uint8),
            ],
            align=True,
        )
        self._allocate()
        self._prepare_stage()
        self._before = [b""] * n_envs

    def _prepare_stage(self) -> None:
        """Make the one row per environment in which a step is put together, and views of its fields."""
        n_envs = self.n_envs
        self._stage = np.zeros(n_envs, dtype=self.dtype)
        self._staged = {name: self._stage[name] for name in self.dtype.names or ()}
        self._stage_bytes = self._stage.view(np.uint8).reshape(n_envs, self.dtype.itemsize)
        self._own_bytes = self._stage_bytes[:, self.dtype.fields["_action"][1] :]  # type: ignore[index]

    def _allocate(self) -> None:
        """Reserve address space for the worst case, in which every episode is one step long."""
        slots = self.capacity * self.n_envs
        self.rings = [Ring(env, self.capacity) for env in range(self.n_envs)]
        self.rows = np.zeros(self.n_envs * self.rings[0].n_rows, dtype=self.dtype)
        self.slot_row = np.zeros(slots, dtype=np.int64)
        self.first = np.zeros(self.n_envs * self.rings[0].n_episodes, dtype=np.int64)
        self.last = np.zeros_like(self.first)
        self.episode_goal = np.zeros((len(self.first), *self.goal_shape), dtype=self.goal_dtype)
        self.row_goal: NDArray | None = None
        self.infos: NDArray | None = None

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
        kept = {name: value for name, value in self.__dict__.items() if name not in ARRAYS}
        kept = {name: value for name, value in kept.items() if not name.startswith(("_stage", "_own"))}
        return kept | {"written": self.written()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Reserve the address space again and put back what had been written."""
        written = state.pop("written")
        self.__dict__.update(state)
        rings = self.rings
        self._allocate()
        self.rings = rings
        if "row_goal" in written:
            self.row_goal = np.zeros((len(self.rows), *self.goal_shape), dtype=self.goal_dtype)
        if "infos" in written:
            self.infos = np.empty(len(self.rows), dtype=object)
        for name, blocks in self.written().items():
            for block, part in zip(blocks, written[name], strict=True):
                block[...] = part
        self._prepare_stage()

    # ------------------------------------------------------------------------------------------------ writing

    def add(
        self,
        obs: Batch,
        next_obs: Batch,
        action: NDArray,
        reward: NDArray,
        terminated: NDArray,
        ended: NDArray,
        infos: list[dict[str, Any]] | None = None,
    ) -> None:
        """Store one transition of every environment.

        :param obs: (n_envs, …) observations; compared with the last ``next_obs``: where they differ, the
            environment was reset in between, and a new episode begins.
        :param next_obs: (n_envs, …) observations after the step, the final one where the episode ended.
        :param action: (n_envs, …) actions.
        :param reward: (n_envs,) rewards.
        :param terminated: (n_envs,) whether the step is terminal, time-outs excepted.
        :param ended: (n_envs,) whether the episode ended, for whatever reason.
        :param infos: kept for ``compute_reward`` if given.
        """
        self._stage_observation(obs)
        goal, next_goal = self._goal(obs), self._goal(next_obs)
        for env, ring in enumerate(self.rings):
            seen = self._stage_bytes[env].tobytes() + goal[env].tobytes()
            if ring.running and seen != self._before[env]:
                ring.end_episode()
            if not ring.running:
                self._begin(ring, goal[env])
            self._advance(ring)
        rows = np.array([ring.row for ring in self.rings])
        episodes = np.array([ring.episode for ring in self.rings])
        self._staged["_action"][...] = np.asarray(action).reshape(self._staged["_action"].shape)
        self._staged["_reward"][...] = reward
        self._staged["_flags"][...] = np.asarray(terminated, dtype=np.uint8) * TERMINATED + STEP
        self._staged["_episode"][...] = episodes
        self.rows[rows - 1] = self._stage
        self._stage_observation(next_obs)
        self.rows[rows] = self._stage
        self._before = [s.tobytes() + g.tobytes() for s, g in zip(self._stage_bytes, next_goal, strict=True)]
        self._store_goals(rows, episodes, goal, next_goal)
        if infos is not None:
            self._store_infos(rows - 1, infos)
        for ring, end in zip(self.rings, ended, strict=True):
            if end:
                ring.end_episode()

    def _stage_observation(self, obs: Batch) -> None:
        for key in self.keys:
            field = self._staged[key]
            field[...] = np.reshape(obs[key], field.shape)
        self._own_bytes[...] = 0  # so that the same observation is the same bytes

    def _goal(self, obs: Batch) -> NDArray:
        return (
            np.asarray(obs[GOAL]).reshape((self.n_envs, *self.goal_shape)).astype(self.goal_dtype, copy=False)
        )

    def _begin(self, ring: Ring, goal: NDArray) -> None:
        ring.begin_episode()
        self.first[ring.episode] = self.last[ring.episode] = ring.row
        self._evict(ring)
        self.episode_goal[ring.episode] = goal

    def _advance(self, ring: Ring) -> None:
        """Take the next row and slot, and make room for them."""
        if ring.at_the_end:
            self._move_to_front(ring)
        if ring.count == ring.capacity and ring.only_running:
            # One episode fills the whole ring: its older half is let go, as if it had begun later.
            self.first[ring.episode] += ring.drop_half()
        ring.advance()
        self._evict(ring)
        self.slot_row[ring.newest_slot] = ring.row - 1
        self.last[ring.episode] = ring.row

    def _evict(self, ring: Ring) -> None:
        while ring.has_finished and (
            ring.count > ring.capacity
            or self.first[ring.episode] <= self.first[ring.oldest_episode] <= ring.row
        ):
            oldest = ring.oldest_episode
            ring.drop_oldest(int(self.last[oldest] - self.first[oldest]))

    def _move_to_front(self, ring: Ring) -> None:
        """Move a running episode that reached the last row to the first ones."""
        first, last = int(self.first[ring.episode]), int(self.last[ring.episode])
        front = ring.base_row
        while ring.has_finished and self.first[ring.oldest_episode] <= front + last - first:
            oldest = ring.oldest_episode
            ring.drop_oldest(int(self.last[oldest] - self.first[oldest]))
        length = last - first
        for array in (self.rows, self.row_goal, self.infos):
            if array is not None:
                array[front : front + length + 1] = array[first : last + 1]
        self.first[ring.episode], self.last[ring.episode] = front, front + length
        ring.row, ring.lap = front + length, length
        self.slot_row[ring.newest(length)] = front + np.arange(length)

    def _store_goals(self, rows: Indices, episodes: Indices, goal: NDArray, next_goal: NDArray) -> None:
        if self.row_goal is None:
            known = self.episode_goal[episodes]
            if np.array_equal(known, goal) and np.array_equal(known, next_goal):
                return
            self.row_goal = np.zeros((len(self.rows), *self.goal_shape), dtype=self.goal_dtype)
            live = np.concatenate([self.rows_of(ring.newest(ring.count)) for ring in self.rings])
            self.row_goal[live] = self.row_goal[live + 1] = self.episode_goal[self.rows["_episode"][live]]
        self.row_goal[rows - 1], self.row_goal[rows] = goal, next_goal

    def _store_infos(self, rows: Indices, infos: list[dict[str, Any]]) -> None:
        if self.infos is None:
            self.infos = np.empty(len(self.rows), dtype=object)
        for row, info in zip(rows, infos, strict=True):
            self.infos[row] = {key: value for key, value in info.items() if "terminal_observation" not in key}

    def unsettled(self) -> Indices:
        """Return the rows of transitions added since the last call; those held still."""
        fresh = [ring.newest(min(ring.unsettled, ring.count)) for ring in self.rings if ring.unsettled]
        for ring in self.rings:
            ring.unsettled = 0
        return self.rows_of(np.concatenate(fresh)) if fresh else np.zeros(0, dtype=np.int64)

    def truncate_running(self) -> bool:
        """End every running episode as a time-out would; return whether there was one."""
        running = [ring for ring in self.rings if ring.running]
        for ring in running:
            ring.end_episode()
        return bool(running)

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def count(self) -> int:
        """Transitions held, over all environments."""
        return sum(ring.count for ring in self.rings)

    @property
    def nbytes(self) -> int:
        """Bytes written to so far: what the storage takes of the machine's memory."""
        rows = sum(ring.rows_used for ring in self.rings)
        slots = sum(ring.slots_used for ring in self.rings)
        episodes = sum(ring.episodes_used for ring in self.rings)
        goal = self.goal_dtype.itemsize * int(np.prod(self.goal_shape))
        goals = rows if self.row_goal is not None else 0
        return rows * self.dtype.itemsize + slots * 8 + episodes * (16 + goal) + goals * goal

    def draw(self, count: int, rng: np.random.Generator) -> Indices:
        """Return (count,) slots, uniform over the transitions held."""
        number = rng.integers(0, self.count, size=count)
        if self.n_envs == 1:
            return self.rings[0].slots(number)
        ends = np.cumsum([ring.count for ring in self.rings])
        env = np.searchsorted(ends, number, side="right")
        starts = np.array([ring.oldest_slot - ring.base_slot for ring in self.rings])
        before = ends - [ring.count for ring in self.rings]
        return env * self.capacity + (starts[env] + number - before[env]) % self.capacity

    def rows_of(self, slots: Indices) -> Indices:
        """Return the rows of those slots."""
        return self.slot_row.take(slots)

    def take(self, rows: Indices) -> NDArray:
        """Return a packed copy of those rows; its fields are views."""
        return self.rows.take(rows)

    def achieved(self, rows: Indices) -> NDArray:
        """Return what was achieved at those rows, as desired goals."""
        found = self.rows["achieved_goal"][rows]
        return found.astype(self.goal_dtype, copy=False).reshape(len(rows), *self.goal_shape)

    def goals(self, rows: Indices, episodes: NDArray) -> NDArray:
        """Return the goals desired at those rows of those episodes."""
        return self.row_goal.take(rows, axis=0) if self.row_goal is not None else self.episode_goal[episodes]


def _shape(space: spaces.Space) -> tuple[int, ...]:
    if isinstance(space, spaces.Discrete):
        return (1,)
    if isinstance(space, spaces.MultiDiscrete):
        return (len(space.nvec),)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return tuple(space.shape)
    raise NotImplementedError(f"{space} observation space is not supported")


def _small(dtype: Any) -> np.dtype:
    """Return the type to store: float32 for float64 (what torch works in), else the same."""
    return np.dtype(np.float32) if dtype == np.float64 else np.dtype(dtype)
