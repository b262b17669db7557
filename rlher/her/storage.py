"""The storage of transitions: a ring for each environment, and one for demonstrations, which is never overwritten.

A transition is one packed row: an observation with the action and reward that followed it. The observation after
transition i is that of transition i + 1 or, at an episode's last transition, ``episode_last_obs[episode]``. Each
observation is therefore stored once. To overwrite the oldest transition, only its episode's ``episode_first_id``
advances. Nothing is moved, and a full ring stays full.

All fields of a row lie side by side: with a million transitions, sampling takes as long as its cache misses do. The
desired goal is one of them, because an environment may move it within an episode. The goals achieved after each
transition, ``next_achieved``, are a separate array, because virtual goals are read from all over the storage. They have
the environment's precision, because rewards depend on it.

Each ring gives its transitions serial numbers from 0. The *id* of a transition is its serial number plus
:data:`IDS_PER_RING` times the index of its ring. Environment i has ring i, and the demonstrations have the last one. So
consecutive transitions of an episode have consecutive ids. The *position* of a transition in the arrays is its ring's
start plus the serial number modulo the ring's size. Episodes are numbered in the same way: the n-th episode of a ring,
counted from 0, has the number ``ring_start + n % ring_size``.

For example, one environment with a capacity of 3 has played episodes of 2, 1 and 2 transitions. Transitions 3 and 4
have overwritten those of episode 0, whose number the next episode gets::

    position        0  1  2                       episode            0  1  2
    transition      3  4  2                       episode_first_id   -  2  3
    rows["episode"] 2  2  1                       episode_last_id    -  2  4
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ACHIEVED_GOAL, DESIRED_GOAL = "achieved_goal", "desired_goal"

RING_SHIFT = 40
IDS_PER_RING = 1 << RING_SHIFT
"""Ids of one ring; more than can ever be added to it."""

RING_ARRAYS = ("ring_added", "ring_running")
EPISODE_ARRAYS = ("episode_first_id", "episode_last_id", "episode_last_obs")

Observations = Mapping[str, NDArray]
ObservationFields = Mapping[str, tuple[Any, tuple[int, ...]]]
Ids = NDArray[np.int64]
Positions = NDArray[np.int64]


class Layout:
    """Types and shapes of what is stored.

    :param observation: types and shapes of observations, by key.
    :param action_dtype: type of actions.
    :param action_dim: number of entries of an action.
    :param goal_parts: parts of a goal (:func:`rlher.her.strategies.keep_one_part`), of which the first is the task's.
    :ivar row_dtype: a packed row; its field ``obs`` is the observation.
    :ivar observation_dtype: a packed observation, by key.
    :ivar achieved_dtype: an achieved goal at the environment's precision, in the shape of a desired goal.
    """

    def __init__(self, observation: ObservationFields, action_dtype: Any, action_dim: int, goal_parts: int) -> None:
        by_key = [(key, sample_dtype(dtype), shape) for key, (dtype, shape) in observation.items()]
        self.observation_dtype = np.dtype(by_key, align=True)
        fields: list[tuple] = [
            ("obs", self.observation_dtype),
            ("action", sample_dtype(action_dtype), (action_dim,)),
            ("reward", np.float32),
            ("goal_independent", np.float32),  # reward that compute_reward does not explain, once observed
            ("episode", np.int32),
            ("terminated", np.bool_),
        ]
        self.row_dtype = np.dtype(fields, align=True)
        self.achieved_dtype = np.dtype((observation[ACHIEVED_GOAL][0], observation[DESIRED_GOAL][1]))
        self.goal_parts = goal_parts

    @property
    def description(self) -> str:
        """Names, types and shapes of all fields; equal for spaces whose transitions can be exchanged."""
        return str(np.dtype([("row", self.row_dtype), ("achieved", self.achieved_dtype)]).descr)

    @property
    def transition_bytes(self) -> int:
        """Bytes of a transition."""
        return self.row_dtype.itemsize + self.achieved_dtype.itemsize


def sample_dtype(dtype: Any) -> np.dtype:
    """Return the type of sampled tensors: float32 for float64, else the same type (images stay uint8)."""
    return np.dtype(np.float32) if dtype == np.float64 else np.dtype(dtype)


class Storage:
    """Transitions of ``n_envs`` environments.

    :param capacity: transitions stored of each environment.
    :param n_envs: number of environments.
    :param layout: what a transition consists of.
    :param demonstration_steps: transitions of the demonstrations, which :meth:`add_episode` stores in ring ``n_envs``;
        0: that ring does not exist.
    :ivar ring_sizes: for each ring, transitions that it can hold.
    :ivar ring_added: for each ring, transitions ever added.
    :ivar ring_running: for each ring, whether its newest episode runs.
    :ivar ring_newest_episode: for each ring, its newest episode.
    :ivar rows: by position, packed rows.
    :ivar next_achieved: by position, goals achieved after the transition.
    :ivar episode_first_id: for each episode, id of its oldest transition that is stored.
    :ivar episode_last_id: for each episode, id of its newest transition.
    :ivar episode_last_obs: for each episode, the packed observation after its newest transition.
    """

    def __init__(self, capacity: int, n_envs: int, layout: Layout, demonstration_steps: int = 0) -> None:
        self.capacity = capacity
        self.n_envs = n_envs
        self.layout = layout
        self.demonstration_steps = demonstration_steps
        sizes = [capacity] * n_envs
        if demonstration_steps > 0:
            sizes.append(demonstration_steps)
        self.ring_sizes = np.array(sizes, np.int64)
        self.ring_added = np.zeros(len(sizes), np.int64)
        self.ring_running = np.zeros(len(sizes), dtype=bool)
        self.ring_starts = np.cumsum(self.ring_sizes) - self.ring_sizes
        self.ring_newest_episode = self.ring_starts - 1  # at first, none
        # Arrays of zeros take memory only where they are written to.
        count = sum(sizes)
        self.rows = np.zeros(count, layout.row_dtype)
        self.next_achieved = np.zeros(count, layout.achieved_dtype)
        self.episode_first_id = np.zeros(count, np.int64)
        self.episode_last_id = np.zeros(count, np.int64)
        self.episode_last_obs = np.zeros(count, layout.observation_dtype)

    # ------------------------------------------------------------------------------------------------ adding

    def add(
        self,
        obs: Observations,
        next_obs: Observations,
        action: NDArray,
        reward: NDArray,
        done: NDArray,
        terminated: NDArray,
    ) -> None:
        """Store one transition of every environment.

        :param obs: (n_envs, …) observations. Where they differ from the last ``next_obs``, the environment was reset
            in between, and a new episode begins.
        :param next_obs: (n_envs, …) observations after the step; the final ones where the episode ended.
        :param action: (n_envs, …) actions.
        :param reward: (n_envs,) rewards.
        :param done: (n_envs,) whether the episode ended, for whatever reason.
        :param terminated: (n_envs,) whether the step is terminal, time-outs excepted.
        """
        rows = np.zeros(self.n_envs, self.layout.row_dtype)
        last_obs = np.zeros(self.n_envs, self.layout.observation_dtype)
        packed = rows["obs"]
        for key in self.layout.observation_dtype.names or ():
            copy_into(obs[key], packed[key])
            copy_into(next_obs[key], last_obs[key])
        before = self.episode_last_obs.take(self.ring_newest_episode[: self.n_envs])
        if packed.tobytes() != before.tobytes():  # some environment was reset
            was_reset = [x.tobytes() != y.tobytes() for x, y in zip(packed, before, strict=True)]
            self.ring_running[: self.n_envs][was_reset] = False
        rows["action"] = action.reshape(self.n_envs, -1)
        rows["reward"] = reward
        rows["terminated"] = terminated
        positions = np.array([self._append(env) for env in range(self.n_envs)], np.int64)
        rows["episode"] = episodes = self.ring_newest_episode[: self.n_envs]
        self.rows.put(positions, rows)
        self.episode_last_obs.put(episodes, last_obs)
        self.next_achieved[positions] = np.asarray(next_obs[ACHIEVED_GOAL]).reshape(self.next_achieved[positions].shape)
        self.ring_running[: self.n_envs][done] = False

    def add_episode(self, ring: int, rows: NDArray, last_obs: NDArray, next_achieved: NDArray) -> None:
        """Store a whole episode of T steps, at most as many as fit.

        :param ring: number of the environment; ``n_envs``: the demonstrations.
        :param rows: (T,) packed rows, of which the field ``episode`` is overwritten.
        :param last_obs: the packed observation after the last step.
        :param next_achieved: (T, …) goals achieved after each step.
        """
        self.ring_running[ring] = False
        positions = [self._append(ring) for _ in range(len(rows))]
        rows["episode"] = self.ring_newest_episode[ring]
        self.rows[positions], self.next_achieved[positions] = rows, next_achieved
        self.episode_last_obs[self.ring_newest_episode[ring]] = last_obs
        self.ring_running[ring] = False

    def _append(self, ring: int) -> int:
        """Append a transition to the running episode, or to a new one if none runs; return the position.

        The caller writes the row. Of a full ring, the oldest transition is evicted.
        """
        serial, size, start = int(self.ring_added[ring]), int(self.ring_sizes[ring]), int(self.ring_starts[ring])
        new_id = ring * IDS_PER_RING + serial
        position = start + serial % size
        if serial >= size:
            self.episode_first_id[self.rows["episode"][position]] = new_id - size + 1
        if not self.ring_running[ring]:
            # Now fewer transitions than the ring's size are stored, so fewer episodes, and the next number is free.
            newest_offset = self.ring_newest_episode[ring] - start
            self.ring_newest_episode[ring] = start + (newest_offset + 1) % size
            self.episode_first_id[self.ring_newest_episode[ring]] = new_id
            self.ring_running[ring] = True
        self.episode_last_id[self.ring_newest_episode[ring]] = new_id
        self.ring_added[ring] = serial + 1
        return position

    def truncate_running(self, terminated: bool = False) -> bool:
        """End every running episode; return whether there was one.

        :param terminated: store the last step as terminal; False: as a time-out.
        """
        rings = np.flatnonzero(self.ring_running)
        self.rows["terminated"][self._newest_positions(rings)] |= terminated
        self.ring_running[:] = False
        return len(rings) > 0

    def clear(self) -> None:
        """Remove all transitions but the demonstrations."""
        self.ring_added[: self.n_envs] = 0
        self.ring_running[:] = False

    # ----------------------------------------------------------------------------------------------- reading

    @property
    def n_transitions(self) -> int:
        """Transitions stored, over all environments, without the demonstrations."""
        return sum(self._counts.tolist()[: self.n_envs])

    @property
    def _counts(self) -> NDArray[np.int64]:
        """For each ring, transitions stored."""
        return np.minimum(self.ring_added, self.ring_sizes)

    def ids(self, ring: int, since: int = 0) -> Ids:
        """Return the ids of a ring's transitions, the oldest first.

        :param since: leave out transitions with a smaller serial number.
        """
        oldest = max(self.ring_added[ring] - self.ring_sizes[ring], since)
        return ring * IDS_PER_RING + np.arange(oldest, self.ring_added[ring])

    def ids_since(self, serials: Iterable[int]) -> Ids:
        """Return the ids of the transitions with these serial numbers or greater ones.

        :param serials: one for each of the first rings; the other rings are left out.
        """
        return np.concatenate([self.ids(ring, serial) for ring, serial in enumerate(serials)])

    def all_ids(self) -> Ids:
        """Return the ids of all transitions, demonstrations included."""
        return self.ids_since([0] * len(self.ring_sizes))

    def episodes(self, ring: int) -> NDArray[np.int64]:
        """Return the episodes of a ring's transitions, the oldest first."""
        if self.ring_added[ring] == 0:
            return np.zeros(0, np.int64)
        start, size = self.ring_starts[ring], self.ring_sizes[ring]
        oldest_serial = max(self.ring_added[ring] - size, 0)
        oldest = self.rows["episode"][start + oldest_serial % size]
        count = (self.ring_newest_episode[ring] - oldest) % size + 1
        return start + (oldest - start + np.arange(count)) % size

    def sample(self, count: int, rng: np.random.Generator) -> Ids:
        """Return the ids of transitions, uniformly over all environments; the storage must not be empty."""
        if self.n_envs == 1:  # the usual case, in a third of the time
            added = int(self.ring_added[0])
            stored = min(added, self.capacity)
            return added - stored + (rng.random(count) * stored).astype(np.int64)
        counts = self._counts[: self.n_envs]
        ends = np.cumsum(counts)
        index = (rng.random(count) * ends[-1]).astype(np.int64)  # 3 times rng.integers' speed
        env = np.searchsorted(ends, index, side="right")
        oldest_ids = np.arange(self.n_envs) * IDS_PER_RING + self.ring_added[: self.n_envs] - counts
        first_indices = ends - counts
        return index + (oldest_ids - first_indices)[env]

    def sample_demonstrations(self, count: int, rng: np.random.Generator) -> Ids:
        """Return the ids of transitions, uniformly over the demonstrations."""
        return self.n_envs * IDS_PER_RING + (rng.random(count) * self.demonstration_steps).astype(np.int64)

    def positions(self, ids: Ids) -> Positions:
        """Return the positions of transitions in the arrays."""
        if len(self.ring_sizes) == 1:  # the usual case in a third of the time
            return ids % self.capacity
        ring, serial = ids >> RING_SHIFT, ids & (IDS_PER_RING - 1)
        return self.ring_starts.take(ring) + serial % self.ring_sizes.take(ring)

    def _newest_positions(self, rings: NDArray[np.int64]) -> Positions:
        """Return the position of the newest transition of each of these rings, none of which is empty."""
        return self.positions(rings * IDS_PER_RING + self.ring_added[rings] - 1)

    def ids_at(self, positions: Positions) -> Ids:
        """Return the ids of the transitions at these positions, none of which is that of a demonstration."""
        env, offset = np.divmod(positions, self.capacity)  # the rings of the environments come first
        newest = self.ring_added[env] - 1
        age = (newest - offset) % self.capacity  # number of transitions added after this one
        return env * IDS_PER_RING + newest - age

    def is_stored(self, ids: Ids) -> NDArray[np.bool_]:
        """Return whether these are ids of transitions that are stored, demonstrations included."""
        ring, serial = ids >> RING_SHIFT, ids & (IDS_PER_RING - 1)
        exists = (ring >= 0) & (ring < len(self.ring_sizes))
        ring = np.where(exists, ring, 0)
        added = self.ring_added[ring]
        return exists & (serial < added) & (serial >= added - self.ring_sizes[ring])

    def is_newer(self, ids: Ids, serials: Sequence[int]) -> NDArray[np.bool_]:
        """Return whether these are ids of transitions with these serial numbers, one for each ring, or greater ones."""
        return ids & (IDS_PER_RING - 1) >= np.take(serials, ids >> RING_SHIFT)

    def is_demonstration(self, ids: Ids) -> NDArray[np.bool_]:
        """Return whether these are ids of demonstrations."""
        return ids >> RING_SHIFT == self.n_envs

    def rows_at(self, positions: Positions) -> NDArray:
        """Return packed rows of the transitions at these positions, an array of any shape, as a copy."""
        return self.rows.take(positions)  # ten times as fast as self.rows[positions]

    def next_obs(self, ids: Ids, episodes: NDArray[np.integer]) -> NDArray:
        """Return (n,) packed observations that follow transitions, as a copy.

        :param episodes: (n,) episodes of the transitions.
        """
        next_obs = self.rows_at(self.positions(ids + 1))["obs"]
        at_end = np.flatnonzero(ids == self.episode_last_id.take(episodes))
        next_obs[at_end] = self.episode_last_obs.take(episodes[at_end])
        return next_obs

    # ------------------------------------------------------------------------------------ files and pickling

    def state_dict(self) -> dict[str, NDArray]:
        """Return everything but the layout as arrays, without their unused parts."""
        positions = self.positions(self.all_ids())
        arrays = {
            "sizes": np.array([self.capacity, self.n_envs, self.demonstration_steps]),
            "rows": self.rows.take(positions),
            "next_achieved": self.next_achieved[positions],
        }
        arrays["episodes"] = episodes = np.unique(arrays["rows"]["episode"])
        arrays |= {name: getattr(self, name) for name in RING_ARRAYS}
        return arrays | {name: getattr(self, name)[episodes] for name in EPISODE_ARRAYS}

    @classmethod
    def from_state_dict(cls, layout: Layout, arrays: Mapping[str, NDArray]) -> "Storage":
        """Return the storage with this layout whose :meth:`state_dict` was saved; running episodes continue.

        :raises ValueError: the arrays do not fit each other or the layout.
        """
        capacity, n_envs, demonstration_steps = map(int, arrays["sizes"])
        storage = cls(capacity, n_envs, layout, demonstration_steps)
        for name in RING_ARRAYS:
            storage._fill(name, np.arange(len(storage.ring_sizes)), arrays[name])
        positions = storage.positions(storage.all_ids())
        storage._fill("rows", positions, arrays["rows"])
        storage._fill("next_achieved", positions, arrays["next_achieved"])
        for name in EPISODE_ARRAYS:
            storage._fill(name, arrays["episodes"], arrays[name])
        rings = np.flatnonzero(storage.ring_added)
        storage.ring_newest_episode[rings] = storage.rows["episode"][storage._newest_positions(rings)]
        return storage

    def _fill(self, name: str, indices: NDArray, values: NDArray) -> None:
        """Set some entries of an array; raise ValueError if the values have another type or shape than these."""
        target = getattr(self, name)
        if values.dtype != target.dtype or values.shape != (len(indices), *target.shape[1:]):
            raise ValueError(f"its {name} have another type or shape")
        target[indices] = values

    def __reduce__(self) -> tuple:
        """Return what pickle stores: the arrays without their unused parts."""
        return Storage.from_state_dict, (self.layout, self.state_dict())


def copy_into(values: Any, array: NDArray) -> None:
    """Copy (n, …) values into an array of the same shape; axes of length 1 may be missing or added.

    :raises ValueError: they have another shape.
    """
    values = np.asarray(values)
    if values.shape != array.shape and np.squeeze(values).shape != np.squeeze(array).shape:
        raise ValueError(f"values of shape {values.shape} in place of {array.shape}")
    array[...] = values.reshape(array.shape)


def to_ids(values: Any, count: int) -> Ids | None:
    """Return what a user's code returned as (count,) ids, None if it is something else than integers of this shape."""
    ids = np.asarray(values)
    is_valid = ids.shape == (count,) and ids.dtype.kind in "iu"
    return ids.astype(np.int64) if is_valid else None  # computing with ids overflows smaller types
