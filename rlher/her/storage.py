"""The storage of transitions: a ring for each environment, and demonstrations, which are never overwritten.

A transition is one packed row: an observation with the action and reward that followed it. The observation after
transition i is that of transition i + 1 or, at the newest transition of an episode, ``newest[episode]``. Each
observation is therefore stored once. Overwriting the oldest transition only advances its episode's ``first``, so
nothing is ever moved, and a ring that was filled once stays full.

All fields of a row lie side by side, because at a million transitions the time of a sample is the time of its cache
misses. The desired goal is one of them, because an environment may move it within an episode. The goals achieved after
each transition, ``outcomes``, are a separate array, because virtual goals are read from all over the storage. They
have the environment's precision, because rewards depend on it.

A transition has an *id*: its number in its environment, from 0 for ever, plus :data:`SPAN` times the number of the
environment. Consecutive transitions of an episode have consecutive ids. Its *position* in the arrays is its number
modulo the capacity, in the block of its environment. Demonstrations are one more block.
"""

from collections.abc import Mapping
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

EPISODE_ARRAYS = ("first", "last", "newest")

Batch = Mapping[str, NDArray]
Ids = NDArray[np.int64]
Positions = NDArray[np.int64]


@dataclass
class Layout:
    """Types and shapes of what is stored.

    :param row: a packed row: keys of the observation, then fields that begin with an underscore.
    :param observation: the observation of a row; its fields are the first ones of ``row``.
    :param achieved: type of an achieved goal, with its shape, at the environment's precision.
    """

    row: np.dtype
    observation: np.dtype
    achieved: np.dtype

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
        achieved = np.dtype((parts[ACHIEVED].dtype, _shape(parts[ACHIEVED])))
        return cls(np.dtype(observation + own, align=True), np.dtype(observation, align=True), achieved)

    def __str__(self) -> str:
        """Return what differs between spaces whose transitions cannot be exchanged."""
        return str(np.dtype([("row", self.row), ("achieved", self.achieved)]).descr)

    @property
    def transition_bytes(self) -> int:
        """Bytes of a transition."""
        return self.row.itemsize + self.achieved.itemsize

    @property
    def episode_bytes(self) -> int:
        """Bytes that are stored once per episode: its newest observation, first and last transition."""
        return self.observation.itemsize + 16


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
        layout = self.layout
        # One row more than transitions: it repeats a block's first row, so that a row and the next are always adjacent.
        self.starts = [sum(self.sizes[:block]) + block for block in range(len(self.sizes))]
        count = sum(self.sizes) + len(self.sizes)
        self.rows, self.outcomes = np.zeros(count, layout.row), np.zeros(count, layout.achieved)
        self.infos = None
        # The episodes of a block are a ring as well, with room for one more than transitions.
        self.first, self.last = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.newest = np.zeros(count, layout.observation)
        self.episode = [start - 1 for start in self.starts]  # newest episode of each block; at first, none
        self._start_of, self._size_of = np.array(self.starts), np.array(self.sizes)
        # Views without fields, which NumPy copies ten times faster.
        row, observation = (np.dtype((np.void, each.itemsize)) for each in (layout.row, layout.observation))
        self._pair = np.dtype([("now", layout.row), ("after", layout.observation)], align=True)
        parts: Any = {"names": ["now", "after"], "formats": [row, observation], "offsets": [0, row.itemsize]}
        self._raw_pair = np.dtype(parts | {"itemsize": self._pair.itemsize})
        self._raw_rows, self._raw_newest = self.rows.view(row), self.newest.view(observation)
        size = np.dtype((np.void, self._pair.itemsize))
        self._raw_pairs = np.ndarray(count - 1, size, self.rows, 0, (row.itemsize,))
        self._episode_of = self.rows["_episode"]
        # The last step of every environment, and the observation after it; both are written at once from here.
        self._step, self._after = np.zeros(self.n_envs, layout.row), np.zeros(self.n_envs, layout.observation)
        self._raw_step, self._raw_after = self._step.view(row), self._after.view(observation)
        self._step_obs, self._after_obs = (
            {key: packed[key] for key in layout.observation.names or ()} for packed in (self._step, self._after)
        )
        self._outcomes_shape = (self.n_envs, *self.outcomes.shape[1:])

    # ------------------------------------------------------------------------------------------------ adding

    def add(
        self,
        obs: Batch,
        next_obs: Batch,
        action: NDArray,
        reward: NDArray,
        done: NDArray,
        terminated: NDArray,
        stored: list[int],
        infos: list[dict[str, Any]] | None,
    ) -> None:
        """Store one transition of every environment.

        :param obs: (n_envs, …) observations. Where they differ from the last ``next_obs``, the environment was reset
            in between, and a new episode begins.
        :param next_obs: (n_envs, …) observations after the step; the final ones where the episode ended.
        :param action: (n_envs, …) actions.
        :param reward: (n_envs,) rewards.
        :param done: (n_envs,) whether the episode ended, for whatever reason.
        :param terminated: (n_envs,) whether the step is terminal, time-outs excepted.
        :param stored: numbers of the environments whose step is stored.
        :param infos: stored for ``compute_reward`` if given.
        """
        _copy_each(obs, self._step_obs)
        for env in self._reset_envs():
            self.running[env] = False
        _copy_each(next_obs, self._after_obs)
        for env in stored:
            if not self.running[env]:
                self._begin(env)
        step, episodes = self._step, np.array(self.episode[: self.n_envs])
        step["_action"] = action.reshape(self.n_envs, -1)
        step["_reward"], step["_terminated"], step["_episode"] = reward, terminated, episodes
        positions = np.array([self._take_position(env) for env in stored], np.int64)
        self._raw_rows[positions] = self._raw_step[stored]
        self._raw_newest[episodes[stored]] = self._raw_after[stored]
        self.outcomes[positions] = np.asarray(next_obs[ACHIEVED]).reshape(self._outcomes_shape)[stored]
        self._repeat_first_rows()
        if infos is not None:
            self._store_infos(positions, [infos[env] for env in stored])
        for env, ended in enumerate(done.tolist()):
            if ended:
                self.running[env] = False

    def _reset_envs(self) -> list[int]:
        """Return the environments whose observation differs from the one after their last step."""
        pairs = [(self._step_obs[key], after) for key, after in self._after_obs.items()]
        if all(step.tobytes() == after.tobytes() for step, after in pairs):
            return []
        return [env for env in range(self.n_envs) if any((step[env] != after[env]).any() for step, after in pairs)]

    def extend(self, block: int, rows: NDArray, newest: NDArray, outcomes: NDArray) -> None:
        """Store a whole episode of T steps, at most as many as fit.

        :param block: number of the environment; ``n_envs``: the demonstrations.
        :param rows: (T,) packed rows.
        :param newest: the packed observation after the last step.
        :param outcomes: (T, …) goals achieved after each step.
        """
        self._begin(block)
        episode = self.episode[block]
        positions = np.array([self._take_position(block) for _ in range(len(rows))])
        self.rows[positions], self.outcomes[positions] = rows, outcomes
        self.rows["_episode"][positions] = episode
        self.newest[episode] = newest
        self._repeat_first_rows()
        self.running[block] = False

    def _begin(self, block: int) -> None:
        """Begin an episode."""
        start, count = self.starts[block], self.sizes[block] + 1
        self.episode[block] = episode = start + (self.episode[block] + 1 - start) % count
        self.running[block] = True
        self.first[episode] = block * SPAN + self.total[block]

    def _take_position(self, block: int) -> int:
        """Return the position of the running episode's next transition, after evicting the oldest one from it."""
        number, size = self.total[block], self.sizes[block]
        position = self.starts[block] + number % size
        self.total[block] = number + 1
        self.last[self.episode[block]] = block * SPAN + number
        if number >= size:
            self.first[self._episode_of[position]] = block * SPAN + number - size + 1
        return position

    def _repeat_first_rows(self) -> None:
        self._raw_rows[self._start_of + self._size_of] = self._raw_rows[self._start_of]

    def _store_infos(self, positions: Positions, infos: list[dict[str, Any]]) -> None:
        if self.infos is None:
            self.infos = np.empty(len(self.rows), dtype=object)
        for position, info in zip(positions, infos, strict=True):
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
        self.last_save = ""

    def rebuild_index(self) -> None:
        """Restore what follows from the transitions after they were loaded; running episodes continue."""
        for block in range(len(self.sizes)):
            held = self.held(block)
            if len(held):
                episodes = self._episode_of[self.positions(held)]
                # Some were evicted since they were saved.
                self.first[episodes] = np.maximum(self.first[episodes], held[0])
                self.episode[block] = int(episodes[-1])
                if block < self.n_envs:
                    self._after[block] = self.newest[episodes[-1]]
        self._repeat_first_rows()

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
        """Bytes of the transitions and episodes held."""
        episodes = sum(len(self.episodes(block)) for block in range(len(self.sizes)))
        held = sum(map(min, self.total, self.sizes))
        return held * self.layout.transition_bytes + episodes * self.layout.episode_bytes

    def held(self, block: int, since: int = 0) -> Ids:
        """Return the ids of a block's transitions, the oldest first.

        :param since: leave out transitions with a smaller number.
        """
        oldest = max(self.total[block] - self.sizes[block], since)
        return block * SPAN + np.arange(oldest, self.total[block])

    def episodes(self, block: int) -> NDArray[np.int64]:
        """Return the episodes of a block's transitions, the oldest first."""
        if self.total[block] == 0:
            return np.zeros(0, np.int64)
        start, size = self.starts[block], self.sizes[block]
        oldest = self._episode_of[start + max(self.total[block] - size, 0) % size] - start
        count = (self.episode[block] - start - oldest) % (size + 1) + 1
        return start + (oldest + np.arange(count)) % (size + 1)

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


def copy_into(values: Any, array: NDArray) -> None:
    """Copy (n, …) values into an array of as many entries each.

    :raises ValueError: they have another number or shape.
    """
    array[...] = np.asarray(values).reshape(array.shape)


def _copy_each(obs: Batch, into: dict[str, NDArray]) -> None:
    """Copy (n_envs, …) observations by key into arrays of as many entries."""
    for key, array in into.items():
        copy_into(obs[key], array)


def _shape(space: spaces.Space) -> tuple[int, ...]:
    if isinstance(space, spaces.Discrete):
        return (1,)
    if isinstance(space, spaces.MultiDiscrete):
        return (len(space.nvec),)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return tuple(space.shape)
    raise NotImplementedError(f"{space} observation space is not supported")
