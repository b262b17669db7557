"""The storage of transitions: a ring buffer for each environment, and the demonstrations, which are never overwritten.

A transition is one packed row: an observation with the action and reward that followed it. The observation after
transition i is stored in row i + 1 or, for an episode's last transition, in ``episode_last_obs[episode]``. Each
observation is therefore stored once. When the oldest transition is overwritten, only the ``episode_first_id`` of its
episode advances. Nothing is moved, and a full ring stays full.

All fields of a row lie side by side in memory, because cache misses take most of the sampling time when a million
transitions are stored. A row contains the desired goal, because an environment may move the goal within an episode.
``next_achieved_goals``, the goals achieved after each transition, is a separate array, because virtual goals are read
from all over the storage. It has the environment's precision, because rewards depend on it.

The *id* of a transition never changes. Each environment counts its *steps* from 0, and all environments step together,
so their newest transitions belong to the same step. The transition of step n of environment e has the id
``e * IDS_PER_ENV + n``. So consecutive transitions of an episode have consecutive ids. The demonstrations have the ids
of one more environment, whose ring is as long as they are.

The *position* of a transition in the arrays is ``e * capacity + n % capacity``: the rings lie one after the other.

An *episode* is given by its index in the arrays ``episode_…``. The n-th episode of environment e, counted from 0, has
the index ``e * capacity + n % capacity``. The index of a demonstration is the position of its first transition.

For example, one environment with a capacity of 3 has played episodes of 2, 1 and 2 transitions. Transitions 3 and 4
have overwritten the transitions of episode 0. The next episode will get the index 0::

    position        0  1  2                       episode            0  1  2
    transition      3  4  2                       episode_first_id   -  2  3
    rows["episode"] 2  2  1                       episode_last_id    -  2  4
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

ACHIEVED_GOAL, DESIRED_GOAL = "achieved_goal", "desired_goal"

ENV_SHIFT = 40
IDS_PER_ENV = 1 << ENV_SHIFT
"""Number of ids reserved for each environment; none ever gets as many transitions."""

ENV_ARRAYS = ("is_running", "newest_episode")
EPISODE_ARRAYS = ("episode_first_id", "episode_last_id", "episode_last_obs")

Observations = Mapping[str, NDArray]
ObservationFields = Mapping[str, tuple[Any, tuple[int, ...]]]
Ids = NDArray[np.int64]
Positions = NDArray[np.int64]


class Layout:
    """Types and shapes of the stored arrays.

    :param observation: types and shapes of observations, by key.
    :param action_dtype: type of actions.
    :param action_dim: number of entries of an action.
    :param goal_parts: number of parts of a goal (:func:`rlher.her.strategies.keep_one_part`); the first part is the
        task's.
    :ivar row_dtype: type of a packed row; its field ``obs`` is the observation.
    :ivar observation_dtype: type of a packed observation, with a field for each key.
    :ivar achieved_dtype: type of an achieved goal, at the environment's precision, in the shape of a desired goal.
    """

    def __init__(self, observation: ObservationFields, action_dtype: Any, action_dim: int, goal_parts: int) -> None:
        by_key = [(key, stored_dtype(dtype), shape) for key, (dtype, shape) in observation.items()]
        self.observation_dtype = np.dtype(by_key, align=True)
        fields: list[tuple] = [
            ("obs", self.observation_dtype),
            ("action", stored_dtype(action_dtype), (action_dim,)),
            ("reward", np.float32),
            ("goal_independent_reward", np.float32),  # reward minus compute_reward; NaN before it is known
            ("episode", np.int32),
            ("terminated", np.bool_),
        ]
        self.row_dtype = np.dtype(fields, align=True)
        self.achieved_dtype = np.dtype((observation[ACHIEVED_GOAL][0], observation[DESIRED_GOAL][1]))
        self.goal_parts = goal_parts

    @property
    def description(self) -> str:
        """Names, types and shapes of all fields, as text. Storages with equal descriptions can exchange transitions."""
        return str(np.dtype([("row", self.row_dtype), ("achieved", self.achieved_dtype)]).descr)

    @property
    def transition_bytes(self) -> int:
        """Bytes of a transition."""
        return self.row_dtype.itemsize + self.achieved_dtype.itemsize


def stored_dtype(dtype: Any) -> np.dtype:
    """Return the type of sampled tensors: float32 for float64, else the same type (images stay uint8)."""
    return np.dtype(np.float32) if dtype == np.float64 else np.dtype(dtype)


class Storage:
    """Transitions of ``n_envs`` environments.

    :param capacity: maximum number of stored transitions of each environment.
    :param n_envs: number of environments.
    :param layout: types and shapes of a transition.
    :param demonstration_steps: number of transitions of the demonstrations, see :meth:`add_demonstration`.
    :ivar first_demonstration_id: id of the first transition of the demonstrations.
    :ivar ring_sizes: number of transitions in the ring of each environment, and last in that of the demonstrations.
    :ivar steps_added: number of steps that each environment ever added.
    :ivar is_running: for each environment, whether its newest episode is running.
    :ivar newest_episode: for each environment, its newest episode.
    :ivar rows: by position, packed rows.
    :ivar next_achieved_goals: by position, goals achieved after the transition.
    :ivar episode_first_id: for each episode, id of its oldest stored transition.
    :ivar episode_last_id: for each episode, id of its newest transition.
    :ivar episode_last_obs: for each episode, the packed observation after its newest transition.
    """

    def __init__(self, capacity: int, n_envs: int, layout: Layout, demonstration_steps: int = 0) -> None:
        self.capacity = capacity
        self.n_envs = n_envs
        self.layout = layout
        self.demonstration_steps = demonstration_steps
        self.first_demonstration_id = n_envs * IDS_PER_ENV
        self.ring_sizes = np.append(np.full(n_envs, capacity), max(demonstration_steps, 1))
        self.steps_added = 0
        self.is_running = np.zeros(n_envs, dtype=bool)
        self.newest_episode = np.arange(n_envs) * capacity - 1  # no episode yet

        # The operating system gives memory to an array of zeros only where it is written to.
        count = n_envs * capacity + demonstration_steps
        self.rows = np.zeros(count, layout.row_dtype)
        self.next_achieved_goals = np.zeros(count, layout.achieved_dtype)
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

        :param obs: (n_envs, …) observations. If one differs from the last ``next_obs``, its environment was reset in
            between, and a new episode begins.
        :param next_obs: (n_envs, …) observations after the step; the final observation if the episode ended.
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
        self._end_reset_episodes(packed)
        rows["action"] = action.reshape(self.n_envs, -1)
        rows["reward"] = reward
        rows["goal_independent_reward"] = np.nan
        rows["terminated"] = terminated
        positions = np.array([self._claim_position(env_idx) for env_idx in range(self.n_envs)], np.int64)
        self.steps_added += 1
        rows["episode"] = self.newest_episode
        self.rows.put(positions, rows)
        self.episode_last_obs.put(self.newest_episode, last_obs)
        achieved_goals = np.asarray(next_obs[ACHIEVED_GOAL])
        self.next_achieved_goals[positions] = achieved_goals.reshape(self.next_achieved_goals[positions].shape)
        self.is_running[done] = False

    def _end_reset_episodes(self, obs: NDArray) -> None:
        """End the episodes of environments that were reset since the last step: other observations follow.

        :param obs: (n_envs,) packed observations before the new transitions.
        """
        before = self.episode_last_obs.take(self.newest_episode)
        if obs.tobytes() != before.tobytes():
            was_reset = [x.tobytes() != y.tobytes() for x, y in zip(obs, before, strict=True)]
            self.is_running[was_reset] = False

    def _claim_position(self, env_idx: int) -> int:
        """Reserve the position of an environment's new transition in its running episode, or else in a new episode.

        The caller writes the row at this position. If the ring is full, its oldest transition is evicted.
        """
        start = env_idx * self.capacity
        position = start + self.steps_added % self.capacity
        new_id = env_idx * IDS_PER_ENV + self.steps_added
        if self.steps_added >= self.capacity:
            self.episode_first_id[self.rows["episode"][position]] = new_id - self.capacity + 1

        if not self.is_running[env_idx]:
            # The ring now holds fewer transitions, so fewer episodes, than its capacity. So the next index is free.
            self.newest_episode[env_idx] = start + (self.newest_episode[env_idx] - start + 1) % self.capacity
            self.episode_first_id[self.newest_episode[env_idx]] = new_id
            self.is_running[env_idx] = True
        self.episode_last_id[self.newest_episode[env_idx]] = new_id
        return position

    def add_demonstration(self, step: int, rows: NDArray, last_obs: NDArray, next_achieved_goals: NDArray) -> None:
        """Store a demonstration of T steps.

        :param step: its first step, counted over all demonstrations.
        :param rows: (T,) packed rows; their fields ``episode`` and ``goal_independent_reward`` are overwritten.
        :param last_obs: the packed observation after the last step.
        :param next_achieved_goals: (T, …) goals achieved after each step.
        """
        steps = np.arange(step, step + len(rows))
        ids = self.first_demonstration_id + steps
        positions = self.positions(ids)
        rows["episode"] = episode = positions[0]
        rows["goal_independent_reward"] = np.nan
        self.rows[positions], self.next_achieved_goals[positions] = rows, next_achieved_goals
        self.episode_first_id[episode], self.episode_last_id[episode] = ids[0], ids[-1]
        self.episode_last_obs[episode] = last_obs

    def truncate_running(self, terminated: bool = False) -> None:
        """End every running episode.

        :param terminated: whether to store the last step as terminal; otherwise it is stored as a time-out.
        """
        last_ids = self.episode_last_id[self.newest_episode[self.is_running]]
        self.rows["terminated"][self.positions(last_ids)] |= terminated
        self.is_running[:] = False

    def clear(self) -> None:
        """Remove all transitions except the demonstrations."""
        self.steps_added = 0
        self.is_running[:] = False

    # ----------------------------------------------------------------------------------------------- reading

    @property
    def oldest_step(self) -> int:
        """Step of the oldest stored transition of each environment."""
        return max(self.steps_added - self.capacity, 0)

    @property
    def n_transitions(self) -> int:
        """Number of stored transitions of all environments, without demonstrations."""
        return self.n_envs * (self.steps_added - self.oldest_step)

    def ids_since(self, since: int) -> Ids:
        """Return the ids of all environments' transitions from a step on, those of each environment in order."""
        steps = np.arange(max(self.oldest_step, since), self.steps_added)
        return (np.arange(self.n_envs)[:, None] * IDS_PER_ENV + steps).reshape(-1)

    def all_ids(self) -> Ids:
        """Return the ids of all transitions, demonstrations included."""
        return np.append(self.ids_since(0), self.first_demonstration_id + np.arange(self.demonstration_steps))

    def episodes(self, env_idx: int) -> NDArray[np.int64]:
        """Return the episodes of an environment's transitions, the oldest first."""
        if self.steps_added == 0:
            return np.zeros(0, np.int64)
        start, size = env_idx * self.capacity, self.capacity
        oldest = self.rows["episode"][start + self.oldest_step % size]
        count = (self.newest_episode[env_idx] - oldest) % size + 1
        return start + (oldest - start + np.arange(count)) % size

    def sample(self, count: int, rng: np.random.Generator) -> Ids:
        """Sample ids uniformly from the transitions of all environments; the storage must not be empty."""
        oldest = self.oldest_step
        stored = self.steps_added - oldest
        index = (rng.random(count) * (self.n_envs * stored)).astype(np.int64)  # three times as fast as rng.integers
        env_idx, offset = np.divmod(index, stored)
        return env_idx * IDS_PER_ENV + oldest + offset

    def sample_demonstrations(self, count: int, rng: np.random.Generator) -> Ids:
        """Sample ids uniformly from the transitions of the demonstrations."""
        return self.first_demonstration_id + (rng.random(count) * self.demonstration_steps).astype(np.int64)

    def positions(self, ids: Ids) -> Positions:
        """Return the positions of transitions in the arrays."""
        if len(self.rows) == self.capacity:  # a shortcut for the usual case, which takes a third of the time
            return ids % self.capacity
        env_idx, step = env_and_step(ids)
        return env_idx * self.capacity + step % self.ring_sizes[env_idx]

    def ids_at(self, positions: Positions) -> Ids:
        """Return the ids of the transitions at these positions, which must not belong to demonstrations."""
        env_idx, offset = np.divmod(positions, self.capacity)
        newest = self.steps_added - 1
        age = (newest - offset) % self.capacity  # number of transitions added after this one
        return env_idx * IDS_PER_ENV + newest - age

    def is_stored(self, ids: Ids) -> NDArray[np.bool_]:
        """Return (n,) whether these ids belong to stored transitions, including demonstrations."""
        env_idx, step = env_and_step(ids)
        in_ring = (env_idx >= 0) & (env_idx < self.n_envs) & (step < self.steps_added) & (step >= self.oldest_step)
        return in_ring | (self.is_demonstration(ids) & (ids < self.first_demonstration_id + self.demonstration_steps))

    def is_demonstration(self, ids: Ids) -> NDArray[np.bool_]:
        """Return (n,) whether these ids belong to demonstrations."""
        return ids >= self.first_demonstration_id

    def rows_at(self, positions: Positions) -> NDArray:
        """Return a copy of the packed rows at these positions; the positions may have any shape."""
        return self.rows.take(positions)  # ten times as fast as self.rows[positions]

    def next_obs(self, ids: Ids, episodes: NDArray[np.integer]) -> NDArray:
        """Return a copy of the (n,) packed observations after these transitions.

        :param episodes: (n,) episodes of the transitions.
        """
        next_obs = self.rows.take(self.positions(ids + 1))["obs"]
        at_end = np.flatnonzero(ids == self.episode_last_id.take(episodes))
        next_obs[at_end] = self.episode_last_obs.take(episodes[at_end])
        return next_obs

    # ------------------------------------------------------------------------------------ files and pickling

    def state_dict(self) -> dict[str, NDArray]:
        """Return everything except the layout as arrays, without unused entries."""
        positions = self.positions(self.all_ids())
        arrays = {
            "sizes": np.array([self.capacity, self.n_envs, self.demonstration_steps]),
            "steps_added": np.array(self.steps_added),
            "rows": self.rows.take(positions),
            "next_achieved_goals": self.next_achieved_goals[positions],
        }
        arrays |= {name: getattr(self, name) for name in ENV_ARRAYS}
        arrays["episodes"] = episodes = np.unique(arrays["rows"]["episode"])
        return arrays | {name: getattr(self, name)[episodes] for name in EPISODE_ARRAYS}

    @classmethod
    def from_state_dict(cls, layout: Layout, arrays: Mapping[str, NDArray]) -> "Storage":
        """Rebuild a storage with this layout from its :meth:`state_dict`; running episodes continue.

        :raises ValueError: the arrays do not fit each other or the layout.
        """
        capacity, n_envs, demonstration_steps = map(int, arrays["sizes"])
        storage = cls(capacity, n_envs, layout, demonstration_steps)
        storage.steps_added = int(arrays["steps_added"])
        for name in ENV_ARRAYS:
            storage._fill(name, np.arange(n_envs), arrays[name])
        positions = storage.positions(storage.all_ids())
        storage._fill("rows", positions, arrays["rows"])
        storage._fill("next_achieved_goals", positions, arrays["next_achieved_goals"])
        for name in EPISODE_ARRAYS:
            storage._fill(name, arrays["episodes"], arrays[name])
        return storage

    def _fill(self, name: str, indices: NDArray, values: NDArray) -> None:
        """Set entries of an array; raise ValueError if the values have another type or shape than the entries."""
        target = getattr(self, name)
        if values.dtype != target.dtype or values.shape != (len(indices), *target.shape[1:]):
            raise ValueError(f"its {name} have another type or shape")
        target[indices] = values

    def __reduce__(self) -> tuple:
        """Return what pickle stores: the arrays without unused entries."""
        return Storage.from_state_dict, (self.layout, self.state_dict())


def env_and_step(ids: Ids) -> tuple[Ids, Ids]:
    """Return the environments of transitions, and their steps in these; ``n_envs`` is that of demonstrations."""
    return ids >> ENV_SHIFT, ids & (IDS_PER_ENV - 1)


def copy_into(values: Any, array: NDArray) -> None:
    """Copy (n, …) values into an array of the same shape; axes of length 1 may be missing or added.

    :raises ValueError: they have another shape.
    """
    values = np.asarray(values)
    if values.shape != array.shape and np.squeeze(values).shape != np.squeeze(array).shape:
        raise ValueError(f"values of shape {values.shape} in place of {array.shape}")
    array[...] = values.reshape(array.shape)
