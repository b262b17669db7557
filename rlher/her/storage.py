"""The storage of transitions: a ring for each environment, and demonstrations, which are never overwritten.

A transition is one packed row: an observation with the action and reward that followed it. The observation after
transition i is that of transition i + 1 or, at the newest transition of an episode, ``newest[episode]``. Each
observation is therefore stored once. Overwriting the oldest transition only advances its episode's ``first``, so
nothing is ever moved, and a ring that was filled once stays full.

All fields of a row lie side by side, because at a million transitions the time of a sample is the time of its cache
misses. The desired goal is one of them, because an environment may move it within an episode. The goals achieved after
each transition, ``outcomes``, are a separate array, because virtual goals are read from all over the storage. Outcomes
and the first desired goal of each episode have the environment's precision, because rewards depend on it.

A transition has an *id*: its number in its environment, from 0 for ever, plus :data:`SPAN` times the number of the
environment. Consecutive transitions of an episode have consecutive ids. Its *position* in the arrays is its number
modulo the capacity, in the block of its environment. Demonstrations are one more block.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

ACHIEVED, GOAL = "achieved_goal", "desired_goal"

LOST = "lost_step"
"""Key of ``info`` for a step in which the environment's process died: its transition is not stored."""

SPAN_BITS = 40
SPAN = 1 << SPAN_BITS
"""Ids of one environment; more than it can ever add."""

EPISODE_ARRAYS = ("first", "last", "newest", "first_goal")

Batch = Mapping[str, NDArray]
Ids = NDArray[np.int64]
Positions = NDArray[np.int64]


@dataclass
class Layout:
    """Types and shapes of what is stored.

    :param row: a packed row: keys of the observation, then fields that begin with an underscore.
    :param observation: the observation of a row; its fields are the first ones of ``row``.
    :param achieved: type of an achieved goal, with its shape, at the environment's precision.
    :param goal: type of a desired goal likewise.
    """

    row: np.dtype
    observation: np.dtype
    achieved: np.dtype
    goal: np.dtype

    @classmethod
    def of(cls, observation_space: spaces.Dict, action_space: spaces.Space) -> "Layout":
        """Return the layout for these spaces.

        :raises NotImplementedError: a kind of space that cannot be stored.
        """
        parts = observation_space.spaces
        observation: list[tuple] = [(key, sample_dtype(space.dtype), _shape(space)) for key, space in parts.items()]
        own: list[tuple] = [
            ("_action", sample_dtype(action_space.dtype), (int(np.prod(action_space.shape or 1)),)),
            ("_reward", np.float32),
            ("_goal_independent", np.float32),  # reward that compute_reward does not explain, once computed
            ("_episode", np.int32),
            ("_terminated", np.bool_),
        ]
        achieved, goal = (np.dtype((parts[key].dtype, _shape(parts[key]))) for key in (ACHIEVED, GOAL))
        return cls(np.dtype(observation + own, align=True), np.dtype(observation, align=True), achieved, goal)

    def __str__(self) -> str:
        """Return what differs between spaces whose transitions cannot be exchanged."""
        return str(np.dtype([("row", self.row), ("achieved", self.achieved), ("goal", self.goal)]).descr)

    @property
    def transition_bytes(self) -> int:
        """Bytes of a transition."""
        return self.row.itemsize + self.achieved.itemsize

    @property
    def episode_bytes(self) -> int:
        """Bytes that are stored once per episode: its goal, newest observation, first and last transition."""
        return self.goal.itemsize + self.observation.itemsize + 16


def sample_dtype(dtype: Any) -> np.dtype:
    """Return the type of sampled tensors: float32 for float64, else the same type (images stay uint8)."""
    return np.dtype(np.float32) if dtype == np.float64 else np.dtype(dtype)


class Storage:
    """Transitions of ``n_envs`` environments.

    :param capacity: transitions held of each environment.
    :param n_envs: number of environments.
    :param observation_space: of the environments, with goals.
    :param action_space: of one environment.
    :param demonstration_steps: transitions of the demonstrations, which :meth:`extend` stores in block ``n_envs``.
    :raises NotImplementedError: a kind of space that cannot be stored.
    :ivar total: for each block, transitions ever added.
    :ivar first: id of the oldest transition held of each episode.
    :ivar last: id of the newest transition of each episode.
    """

    rows: NDArray
    outcomes: NDArray
    newest: NDArray
    first: Ids
    last: Ids
    first_goal: NDArray
    infos: NDArray | None

    def __init__(
        self,
        capacity: int,
        n_envs: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space,
        demonstration_steps: int = 0,
    ) -> None:
        self.capacity, self.n_envs = capacity, n_envs
        self.layout = Layout.of(observation_space, action_space)
        self.sizes = [capacity] * n_envs + [demonstration_steps] * (demonstration_steps > 0)
        self.last_save = ""  # id of the last save, or of the save that was loaded
        self.total, self.running = [0] * len(self.sizes), [False] * len(self.sizes)
        self._allocate()

    def _allocate(self) -> None:
        """Reserve the arrays, which take memory only where they are written to."""
        self.episode = [0] * len(self.sizes)  # newest episode of each block
        self._free: list[int] = []  # heap of indices of episodes of which no transition is left
        self.episodes_used = self.n_demonstrations = 0  # the first episodes are the demonstrations
        # One row more than transitions: it repeats a block's first row, so that a row and the next are always adjacent.
        self.starts = [sum(self.sizes[:block]) + block for block in range(len(self.sizes))]
        n_rows = sum(self.sizes) + len(self.sizes)
        # Each environment may have begun an episode when all of its transitions are episodes of one step.
        n_episodes = n_rows
        layout = self.layout
        self.rows, self.outcomes = np.zeros(n_rows, layout.row), np.zeros(n_rows, layout.achieved)
        self.first, self.last = np.zeros(n_episodes, np.int64), np.zeros(n_episodes, np.int64)
        self.newest, self.first_goal = np.zeros(n_episodes, layout.observation), np.zeros(n_episodes, layout.goal)
        self.infos = None
        self._start_of, self._size_of = np.array(self.starts), np.array(self.sizes)
        # Views without fields, which NumPy copies ten times faster.
        row, observation = (np.dtype((np.void, each.itemsize)) for each in (layout.row, layout.observation))
        self._pair = np.dtype([("now", layout.row), ("after", layout.observation)], align=True)
        parts: Any = {"names": ["now", "after"], "formats": [row, observation], "offsets": [0, row.itemsize]}
        self._raw_pair = np.dtype(parts | {"itemsize": self._pair.itemsize})
        self._raw_rows, self._raw_newest = self.rows.view(row), self.newest.view(observation)
        size = np.dtype((np.void, self._pair.itemsize))
        self._raw_pairs = np.ndarray(n_rows - 1, size, self.rows, 0, (row.itemsize,))
        self._episode_of = self.rows["_episode"]
        self._all_envs = list(range(self.n_envs))
        self._now, self._after = _Step(layout, layout.row, self.n_envs), _Step(layout, layout.observation, self.n_envs)

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
        :param lost: environments of ``ended`` whose step is not stored; their episodes end before it.
        """
        now, after = self._now, self._after
        now.observe(obs)
        for env in now.differing(after):
            self.running[env] = False
        now.rows["_action"] = action.reshape(self.n_envs, -1)
        now.rows["_reward"], now.rows["_terminated"] = reward, terminated
        after.observe(next_obs)
        stored = [env for env in range(self.n_envs) if env not in lost] if lost else self._all_envs
        positions = []
        for env in stored:
            if not self.running[env]:
                self._begin(env, now.goal[env])
                now.rows["_episode"][env] = self.episode[env]
            position = self._take_position(env)
            positions.append(position)
            if position == self.starts[env]:
                self._raw_rows[position + self.capacity] = now.raw[env]
            if infos is not None:
                self._store_info(position, infos[env])
        at: Any = np.array(positions, dtype=np.int64)
        envs: Any = stored if lost else slice(None)
        if len(positions) == 1:  # indexing by a number is five times as fast as by an array
            at, envs = positions[0], stored[0]
        episodes = now.rows["_episode"][envs]
        self._raw_rows[at], self.outcomes[at] = now.raw[envs], after.achieved[envs]
        self._raw_newest[episodes] = after.raw[envs]
        for env in ended:
            self.running[env] = False

    def extend(self, block: int, rows: NDArray, newest: NDArray, outcomes: NDArray, goal: NDArray) -> None:
        """Store a whole episode of T steps, at most as many as fit.

        :param block: number of the environment; ``n_envs``: the demonstrations.
        :param rows: (T,) packed rows.
        :param newest: the packed observation after the last step.
        :param outcomes: (T, …) goals achieved after each step.
        :param goal: the first desired goal.
        """
        self._begin(block, goal)
        episode = self.episode[block]
        positions = np.array([self._take_position(block) for _ in range(len(rows))])
        self.rows[positions], self.outcomes[positions] = rows, outcomes
        self.rows["_episode"][positions] = episode
        self.rows[self.starts[block] + self.sizes[block]] = self.rows[self.starts[block]]
        self.newest[episode] = newest
        self.running[block] = False

    def _begin(self, block: int, goal: NDArray) -> None:
        """Begin an episode."""
        if self._free:
            episode = heapq.heappop(self._free)
        else:
            episode = self.episodes_used
            self.episodes_used += 1
        self.n_demonstrations += block == self.n_envs
        self.episode[block], self.running[block] = episode, True
        self.first[episode], self.first_goal[episode] = block * SPAN + self.total[block], goal

    def _take_position(self, block: int) -> int:
        """Return the position of the running episode's next transition, after evicting the oldest one from it."""
        number, size = self.total[block], self.sizes[block]
        position = self.starts[block] + number % size
        self.total[block] = number + 1
        self.last[self.episode[block]] = block * SPAN + number
        if number >= size:
            oldest = int(self._episode_of[position])
            self.first[oldest] = first = block * SPAN + number - size + 1
            if first > self.last[oldest]:
                heapq.heappush(self._free, oldest)
        return position

    def _store_info(self, position: int, info: dict[str, Any]) -> None:
        if self.infos is None:
            self.infos = np.empty(len(self.rows), dtype=object)
        self.infos[position] = {key: value for key, value in info.items() if "terminal_observation" not in key}

    def truncate_running(self, terminated: bool = False) -> bool:
        """End every running episode; return whether there was one.

        :param terminated: store the last step as terminal; False: as a time-out.
        """
        found = [env for env in range(self.n_envs) if self.running[env]]
        for env in found:
            position = self.starts[env] + (self.total[env] - 1) % self.capacity
            self.rows["_terminated"][position] |= terminated
            self.running[env] = False
        return bool(found)

    def clear(self) -> None:
        """Remove all transitions but the demonstrations."""
        self.total[: self.n_envs] = [0] * self.n_envs
        self.running = [False] * len(self.sizes)
        self._free, self.episodes_used = [], self.n_demonstrations
        self.last_save = ""

    def rebuild_index(self) -> None:
        """Restore what follows from the transitions after they were loaded; running episodes continue.

        :raises ValueError: the transitions and the episodes contradict each other.
        """
        used = np.zeros(len(self.first), dtype=bool)
        for block, (start, size) in enumerate(zip(self.starts, self.sizes, strict=True)):
            held = self.held(block)
            if not len(held):
                if self.running[block]:
                    raise ValueError("an episode without transitions is running")
                continue
            self._raw_rows[start + size] = self._raw_rows[start]
            episodes = self._episode_of[self.positions(held)]
            if episodes.min() < 0 or episodes.max() >= len(self.first):
                raise ValueError("an episode is out of range")
            first, last = self.first[episodes], self.last[episodes]
            if (first > held).any() or (held > last).any() or last.max() > held[-1] or used[episodes].any():
                raise ValueError("transitions and episodes contradict each other")
            used[episodes] = True
            self.first[episodes] = np.maximum(first, held[0])
            self.episode[block] = int(episodes[-1])
            if block == self.n_envs:
                self.n_demonstrations = len(np.unique(episodes))
            elif self.running[block]:
                self._after.raw[block] = self._raw_newest[episodes[-1]]
                self._now.rows["_episode"][block] = episodes[-1]
        self.episodes_used = int(np.flatnonzero(used).max(initial=-1)) + 1
        free = np.flatnonzero(~used[: self.episodes_used])
        self._free = free.tolist()
        self.first[free], self.last[free] = 0, -1

    # ----------------------------------------------------------------------------------------------- reading

    @property
    def count(self) -> int:
        """Transitions held, over all environments, without the demonstrations."""
        return sum(min(total, self.capacity) for total in self.total[: self.n_envs])

    @property
    def has_demonstrations(self) -> bool:
        """Whether there are demonstrations."""
        return len(self.sizes) > self.n_envs

    @property
    def nbytes(self) -> int:
        """Bytes of the transitions and episodes held, and so the memory in use."""
        held = sum(map(min, self.total, self.sizes))
        return held * self.layout.transition_bytes + self.episodes_used * self.layout.episode_bytes

    def held(self, block: int, since: int = 0) -> Ids:
        """Return the ids of a block's transitions, the oldest first.

        :param since: leave out transitions with a smaller number.
        """
        oldest = max(self.total[block] - self.sizes[block], since)
        return block * SPAN + np.arange(oldest, self.total[block])

    def all_held(self) -> Ids:
        """Return the ids of all transitions, demonstrations included."""
        return np.concatenate([self.held(block) for block in range(len(self.sizes))])

    def sample(self, count: int, rng: np.random.Generator) -> Ids:
        """Return the ids of transitions, uniformly over all environments; the storage must not be empty."""
        if self.n_envs == 1:
            held = min(self.total[0], self.capacity)
            return self.total[0] - held + (rng.random(count) * held).astype(np.int64)  # 3 times rng.integers' speed
        total = np.array(self.total[: self.n_envs])
        ends = np.cumsum(np.minimum(total, self.capacity))
        number = (rng.random(count) * ends[-1]).astype(np.int64)
        env = np.searchsorted(ends, number, side="right")
        return number + (np.arange(self.n_envs) * SPAN + total - ends)[env]

    def sample_demonstrations(self, count: int, rng: np.random.Generator) -> Ids:
        """Return the ids of transitions, uniformly over the demonstrations."""
        return self.n_envs * SPAN + (rng.random(count) * self.sizes[self.n_envs]).astype(np.int64)

    def positions(self, ids: Ids) -> Positions:
        """Return the positions of transitions in the arrays."""
        if len(self.sizes) == 1:
            return ids % self.capacity
        block, number = ids >> SPAN_BITS, ids & (SPAN - 1)
        return self._start_of.take(block) + number % self._size_of.take(block)

    def ids_at(self, positions: Positions) -> Ids:
        """Return the ids of the environments' transitions at these positions."""
        env, offset = np.divmod(positions, self.capacity + 1)
        newest = np.array(self.total[: self.n_envs])[env] - 1
        return env * SPAN + newest - (newest - offset) % self.capacity

    def is_held(self, ids: Ids) -> NDArray[np.bool_]:
        """Return whether these are ids of transitions that are held, demonstrations included."""
        block, number = ids >> SPAN_BITS, ids & (SPAN - 1)
        exists = (block >= 0) & (block < len(self.sizes))
        total, size = (np.array(of_block)[np.where(exists, block, 0)] for of_block in (self.total, self.sizes))
        return exists & (number < total) & (number >= total - size)

    def transitions(self, ids: Ids, positions: Positions) -> tuple[NDArray, NDArray]:
        """Return (n,) packed rows of transitions, and the observations that follow them, as copies.

        :param ids: (n,) of the transitions.
        :param positions: (n,) of the transitions.
        """
        pairs = self._raw_pairs[positions].view(self._pair)
        episodes = pairs["now"]["_episode"]
        at_end = np.flatnonzero(ids == self.last.take(episodes))
        pairs.view(self._raw_pair)["after"][at_end] = self._raw_newest[episodes[at_end]]
        return pairs["now"], pairs["after"]

    def achieved_goals(self, positions: Positions) -> NDArray:
        """Return the goals achieved after transitions, in the shape of desired goals."""
        return self.outcomes.take(positions, axis=0).reshape(len(positions), *self.layout.row[GOAL].shape)

    def full_precision_goals(self, goals: NDArray, episodes: NDArray) -> NDArray:
        """Return stored desired goals at the environment's precision, except goals that moved within their episode."""
        exact = self.first_goal.take(episodes, axis=0)
        moved = exact.astype(goals.dtype) != goals
        exact[moved] = goals[moved]
        return exact

    # ------------------------------------------------------------------------------------ files and pickling

    def export(self, ids: Ids) -> dict[str, NDArray]:
        """Return transitions and their episodes as arrays."""
        positions = self.positions(ids)
        arrays = {"rows": self.rows.take(positions), "outcomes": self.outcomes.take(positions, axis=0)}
        if self.infos is not None:
            arrays["infos"] = self.infos[positions]
        episodes = np.unique(arrays["rows"]["_episode"])
        return arrays | {"episodes": episodes} | {name: getattr(self, name)[episodes] for name in EPISODE_ARRAYS}

    def restore(self, ids: Ids, arrays: Mapping[str, NDArray]) -> None:
        """Store a value of :meth:`export`; after the last one, call :meth:`rebuild_index`.

        :raises ValueError: the arrays do not fit the ids, each other or the spaces.
        """
        positions, episodes = self.positions(ids), arrays["episodes"]
        if "infos" in arrays and self.infos is None:
            self.infos = np.empty(len(self.rows), dtype=object)
        if ((episodes < 0) | (episodes >= len(self.first))).any():
            raise ValueError("an episode is out of range")
        of_rows = ["rows", "outcomes", *(["infos"] if "infos" in arrays else [])]
        for name, at in [(name, positions) for name in of_rows] + [(name, episodes) for name in EPISODE_ARRAYS]:
            values, into = arrays[name], getattr(self, name)
            if values.dtype != into.dtype or values.shape != (len(at), *into.shape[1:]):
                raise ValueError(f"its {name} have another type or shape")
            into[at] = values

    def __getstate__(self) -> dict[str, Any]:
        """Return the transitions held, without the unused rest of the arrays."""
        kept = ("capacity", "n_envs", "layout", "sizes", "last_save", "total", "running")
        return {name: getattr(self, name) for name in kept} | {"arrays": self.export(self.all_held())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`__getstate__`."""
        arrays = state.pop("arrays")
        self.__dict__.update(state)
        self._allocate()
        self.restore(self.all_held(), arrays)
        self.rebuild_index()


class _Step:
    """Packed observations of all environments at one time, written before they are stored.

    :param dtype: of the packed rows; they begin with the fields of an observation.
    """

    def __init__(self, layout: Layout, dtype: np.dtype, n_envs: int) -> None:
        self.rows = np.zeros(n_envs, dtype)
        self.achieved, self.goal = np.zeros(n_envs, layout.achieved), np.zeros(n_envs, layout.goal)
        self.raw = self.rows.view(np.dtype((np.void, dtype.itemsize)))
        fields: Any = layout.observation.fields
        self._fields = [*((key, self.rows[key]) for key in fields), (ACHIEVED, self.achieved), (GOAL, self.goal)]
        end = max(offset + field.itemsize for field, offset in fields.values())  # without padding
        self._observed = self.rows.view(np.uint8).reshape(n_envs, -1)[:, :end]

    def observe(self, obs: Batch) -> None:
        """Write (n_envs, …) observations by key."""
        for key, view in self._fields:
            value = np.asarray(obs[key])
            view[...] = value if value.shape == view.shape else value.reshape(view.shape)

    def differing(self, other: "_Step") -> list[int]:
        """Return the environments whose observations differ."""
        if self._observed.tobytes() == other._observed.tobytes():
            return []
        return np.flatnonzero((self._observed != other._observed).any(axis=1)).tolist()


def _shape(space: spaces.Space) -> tuple[int, ...]:
    if isinstance(space, spaces.Discrete):
        return (1,)
    if isinstance(space, spaces.MultiDiscrete):
        return (len(space.nvec),)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return tuple(space.shape)
    raise NotImplementedError(f"{space} observation space is not supported")
