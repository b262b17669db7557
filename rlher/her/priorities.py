"""Priorities: which transitions are sampled (uniformly, by TD error, or by the energy of their episode).

To add a priority, write a subclass of :class:`Priority` and enter it in :data:`PRIORITIES`.
"""

import math

import numpy as np
from numpy.typing import NDArray

from rlher.core.errors import RunError, as_run_error, describe_value
from rlher.core.user_code import resolve_object
from rlher.her.storage import ACHIEVED_GOAL, Ids, Positions, Storage

GRAVITY = 9.81
"""Acceleration of gravity in m/s²."""

LARGEST_GAIN = 0.5
"""Energy of one step in J/kg is clipped to this value, as in the authors' code. A collision can exceed it."""


class Priority:
    """Base class of priorities, which sample transitions of a storage.

    :param storage: storage to sample from. Demonstrations are excluded. No transition has a priority yet.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @classmethod
    def uses_td_errors(cls) -> bool:
        """Return whether the class defines :meth:`update`."""
        return cls.update is not Priority.update

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Ids, NDArray | None]:
        """Return (count,) ids of transitions, and their importance weights, or None to leave the bias uncorrected."""
        raise NotImplementedError

    def update(self, ids: Ids, errors: NDArray) -> None:
        """Update the priorities of transitions by their (n,) absolute TD errors.

        :raises RuntimeError: these priorities do not depend on errors.
        """
        raise RuntimeError(f"the priorities of {type(self).__name__} do not depend on TD errors, as td_error does.")

    def state_dict(self) -> dict[str, NDArray]:
        """Return the state to save with the storage: what cannot be computed from the storage."""
        return {}

    def load_state_dict(self, state: dict[str, NDArray]) -> None:
        """Restore a value of :meth:`state_dict` after the storage is loaded.

        :raises ValueError: it does not fit the storage.
        """


class UniformPriority(Priority):
    """Samples all transitions with the same probability."""

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Ids, NDArray | None]:
        """Return (count,) ids of transitions, and no weights."""
        return self.storage.sample(count, rng), None


class TDErrorPriority(Priority):
    """Proportional prioritised experience replay (arXiv:1511.05952).

    A transition is sampled with probability ∝ (|TD error| + ε)^α. A new transition gets the greatest priority so far.
    Weights are (N·P)^-β, divided by the greatest weight of the batch. Priorities belong to transitions, not to pairs of
    transition and goal, because the goal is sampled later. In cpprb each virtual transition has its own error.

    :param storage: storage to sample from.
    :param alpha: 0 is uniform, 1 proportional.
    :param beta: exponent of the weights at the start; it rises linearly to 1.
    :param beta_steps: number of batches after which ``beta`` is 1.
    :param epsilon: number added to absolute errors, so that every transition can be sampled.
    """

    def __init__(
        self,
        storage: Storage,
        alpha: float = 0.6,
        beta: float = 0.4,
        beta_steps: int = 100_000,
        epsilon: float = 1e-3,
    ) -> None:
        if not (0 <= alpha < np.inf and 0 <= beta <= 1 and beta_steps >= 1 and 0 < epsilon < np.inf):
            raise ValueError(
                f"td_error has alpha={alpha}, beta={beta}, beta_steps={beta_steps}, epsilon={epsilon}; use a finite "
                "alpha >= 0, 0 <= beta <= 1, beta_steps >= 1 and a finite epsilon > 0."
            )
        super().__init__(storage)
        self.alpha = alpha
        self.beta = beta
        self.beta_steps = beta_steps
        self.epsilon = epsilon
        # A new transition takes the position of an evicted one, so nothing ever has to be removed from the tree.
        self.tree = SumTree(storage.n_envs * storage.capacity)
        self.steps_in_tree = 0  # number of steps of each environment that are in the tree
        self.max_priority = 1.0
        self.batches = 0

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Ids, NDArray | None]:
        """Return (count,) ids, one from each of ``count`` equal shares of the priorities, and weights in (0, 1]."""
        self._add_new_to_tree()
        positions = self.tree.find((rng.permutation(count) + rng.random(count)) / count)
        beta = self.beta + (1 - self.beta) * min(1.0, self.batches / self.beta_steps)
        self.batches += 1
        weights = (self.storage.n_transitions * self.tree.leaves[positions] / self.tree.total) ** -beta
        return self.storage.ids_at(positions), weights / weights.max()

    def update(self, ids: Ids, errors: NDArray) -> None:
        """Update the priorities of transitions by their (n,) absolute TD errors; ignore evicted transitions.

        :raises ValueError: an error is not finite.
        """
        with np.errstate(over="ignore"):
            priorities = (errors + self.epsilon) ** self.alpha
        if not np.isfinite(priorities).all():
            raise ValueError(f"TD errors up to {np.max(errors)} are no priorities; check the critic for divergence.")
        self._add_new_to_tree()
        has_priority = self.storage.is_stored(ids) & ~self.storage.is_demonstration(ids)
        self.tree.set(self.storage.positions(ids[has_priority]), priorities[has_priority])
        self.max_priority = max(self.max_priority, float(priorities[has_priority].max(initial=0.0)))

    def _add_new_to_tree(self) -> None:
        if self.steps_in_tree != self.storage.steps_added:
            self.tree.set(self.storage.positions(self.storage.ids_since(self.steps_in_tree)), self.max_priority)
            self.steps_in_tree = self.storage.steps_added

    def _positions(self) -> Positions:
        """Return the positions of the environments' transitions."""
        return self.storage.positions(self.storage.ids_since(0))

    def state_dict(self) -> dict[str, NDArray]:
        """Return the priorities, the greatest priority so far, and the number of batches."""
        self._add_new_to_tree()
        numbers = {"max_priority": np.array(self.max_priority), "batches": np.array(self.batches)}
        return numbers | {"priorities": self.tree.leaves[self._positions()]}

    def load_state_dict(self, state: dict[str, NDArray]) -> None:
        """Restore a value of :meth:`state_dict`."""
        positions = self._positions()
        priorities = state["priorities"]
        if priorities.shape != positions.shape or not (np.isfinite(priorities) & (priorities >= 0)).all():
            raise ValueError("the priorities do not fit the transitions")
        self._add_new_to_tree()
        self.tree.set(positions, priorities)
        self.max_priority, self.batches = float(state["max_priority"]), int(state["batches"])


class EnergyPriority(Priority):
    """Energy-based prioritisation (arXiv:1810.01363): episodes that gave the object more energy are sampled more often.

    P(episode) is proportional to max(energy, ``floor`` × mean energy of the finished episodes). A running episode
    counts with the mean energy per step. A transition is then sampled uniformly from the episode. Until some finished
    episode has energy, transitions are sampled uniformly. As in the paper there are no importance weights. If goals
    have several parts, only the task's part counts.

    With ``height`` and ``step_seconds``, energy is computed for a unit mass at the achieved goal. Each step counts with
    the potential and kinetic energy that it adds, clipped to [0, :data:`LARGEST_GAIN`]. Lifting counts more than
    pushing, and falling off the table counts nothing. Without these arguments, the energy is the sum of squared
    displacements of the achieved goal, which needs no units.

    :param storage: storage to sample from.
    :param floor: least energy of an episode, as a share of the mean energy.
    :param height: index of the height in a goal; goals must be positions in metres.
    :param step_seconds: simulated seconds of a step.
    """

    def __init__(
        self, storage: Storage, floor: float = 0.1, height: int | None = None, step_seconds: float | None = None
    ) -> None:
        self.goal_size = math.prod(storage.next_achieved_goals.shape[1:]) // storage.layout.goal_parts
        is_plain = height is None and step_seconds is None
        has_units = height in range(self.goal_size) and step_seconds is not None and 0 < step_seconds < np.inf
        if not (0 < floor <= 1 and (is_plain or has_units)):
            raise ValueError(
                f"energy has floor={floor}, height={height}, step_seconds={step_seconds}; use a floor above 0 and at "
                f"most 1, and both or none of an index from 0 to {self.goal_size - 1} and a finite number above 0."
            )
        super().__init__(storage)
        self.floor = floor
        self.height = height
        self.step_seconds = step_seconds
        # For each episode: its energy, and the id of the episode's last transition when it was computed.
        self.energy = np.zeros(len(storage.episode_first_id))
        self.computed_until = np.full(len(storage.episode_first_id), -1)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Ids, NDArray | None]:
        """Return (count,) ids, one from each of ``count`` equal shares of the episodes' weights."""
        episodes = self._episodes()
        sums = np.cumsum(self._weights(episodes))
        points = sums[-1] * (rng.permutation(count) + rng.random(count)) / count
        points = np.minimum(points, np.nextafter(sums[-1], 0.0))  # rounding may give the total
        sampled = episodes[np.searchsorted(sums, points, side="right")]
        first, last = self.storage.episode_first_id[sampled], self.storage.episode_last_id[sampled]
        return first + (rng.random(count) * (last - first + 1)).astype(np.int64), None

    def _episodes(self) -> NDArray[np.int64]:
        return np.concatenate([self.storage.episodes(env_idx) for env_idx in range(self.storage.n_envs)])

    def _weights(self, episodes: NDArray[np.int64]) -> NDArray:
        """Compute the energies of newly finished episodes, and return the weights of all given episodes."""
        storage = self.storage
        first, last = storage.episode_first_id[episodes], storage.episode_last_id[episodes]
        is_finished = ~np.isin(episodes, storage.newest_episode[storage.is_running])
        for episode in episodes[is_finished & (self.computed_until[episodes] != last)]:
            self.energy[episode] = self._energy_of(episode)
            self.computed_until[episode] = storage.episode_last_id[episode]
        energy = self.energy[episodes]
        steps = last - first + 1
        if not energy[is_finished].any():
            return steps
        mean = energy[is_finished].mean()
        expected = mean * steps / steps[is_finished].mean()
        return np.where(is_finished, np.maximum(energy, self.floor * mean), expected)

    def _energy_of(self, episode: np.integer) -> float:
        """Return the energy of a finished episode."""
        storage = self.storage
        first, last = storage.episode_first_id[episode], storage.episode_last_id[episode]
        positions = storage.positions(np.arange(first, last + 1))
        goals = [storage.rows["obs"][ACHIEVED_GOAL][positions[:1]], storage.next_achieved_goals[positions]]
        path = np.concatenate([goal.reshape(len(goal), -1)[:, : self.goal_size] for goal in goals], dtype=np.float64)
        moves = np.diff(path, axis=0)
        squared = (moves**2).sum(axis=1)
        if self.height is None or self.step_seconds is None:
            return float(squared.sum())
        kinetic = squared / (2 * self.step_seconds**2)  # the object is at rest before the first step
        gains = np.diff(kinetic, prepend=0.0) + GRAVITY * moves[:, self.height]
        return float(gains.clip(0, LARGEST_GAIN).sum())

    def state_dict(self) -> dict[str, NDArray]:
        """Return the energies. Once an episode has lost transitions, its energy cannot be computed again."""
        episodes = self._episodes()
        return {"energy": self.energy[episodes], "computed_until": self.computed_until[episodes]}

    def load_state_dict(self, state: dict[str, NDArray]) -> None:
        """Restore a value of :meth:`state_dict`."""
        if not (np.isfinite(state["energy"]) & (state["energy"] >= 0)).all():
            raise ValueError("the energies are not finite numbers of at least 0")
        episodes = self._episodes()
        self.energy[episodes], self.computed_until[episodes] = state["energy"], state["computed_until"]


PRIORITIES = {"uniform": UniformPriority, "energy": EnergyPriority, "td_error": TDErrorPriority}
"""Classes by the value of ``priority``."""


def checked_sample(priority: Priority, count: int, rng: np.random.Generator) -> tuple[Ids, NDArray | None]:
    """Call ``sample`` of a priority and return its result; check the result of a user's class.

    :raises RunError: ``sample`` raised, did not return ids of stored transitions and weights or None, or returned
        weights although the class does not define ``update``.
    """
    if type(priority) in PRIORITIES.values():
        return priority.sample(count, rng)
    what = f"sample of the priority {type(priority).__name__}"
    with as_run_error(what):
        returned = priority.sample(count, rng)
        if isinstance(returned, tuple | list) and len(returned) == 2:
            ids, weights = np.asarray(returned[0]), returned[1]
            has_ids = ids.shape == (count,) and ids.dtype.kind in "iu"
            has_weights = weights is None or (priority.uses_td_errors() and np.shape(weights) == (count,))
            if has_ids and has_weights:
                ids = ids.astype(np.int64)  # arithmetic with ids would overflow smaller types
                if priority.storage.is_stored(ids).all():
                    return ids, None if weights is None else np.array(weights, np.float64)
    raise RunError(
        f"{what} returned {describe_value(returned)}; it must return a tuple of {count} ids of stored transitions and "
        f"None, or of ids and {count} weights if the class defines update."
    )


def resolve_priority(name: str | type[Priority]) -> type[Priority]:
    """Return the class of a priority.

    :param name: a name of :data:`PRIORITIES`, a subclass of :class:`Priority`, or the ``module:Class`` of one.
    :raises ValueError: an unknown name, or a class with ``update`` and no ``state_dict``.
    :raises UserError: the user's class cannot be imported.
    """
    cls: type[Priority] = resolve_object("priority", name, PRIORITIES, Priority)
    if cls.uses_td_errors() and cls.state_dict is Priority.state_dict:
        raise ValueError(f"{cls.__name__} defines update, so it needs state_dict and load_state_dict.")
    return cls


class SumTree:
    """A binary tree of sums over non-negative values, to sample values with probability proportional to their size.

    ``sums[1]`` is the total. The children of node i are 2i and 2i + 1. The leaves are the values.

    :param size: number of values.
    """

    def __init__(self, size: int) -> None:
        self.depth = (size - 1).bit_length()
        self.sums = np.zeros(2 << self.depth)

    @property
    def leaves(self) -> NDArray[np.float64]:
        """The values, a view of ``sums``. It is no attribute, because unpickled views are copies."""
        return self.sums[1 << self.depth :]

    @property
    def total(self) -> float:
        """Sum of all values."""
        return float(self.sums[1])

    def set(self, index: Positions, value: NDArray | float) -> None:
        """Set values. If an index occurs several times, one of its values is stored."""
        self.leaves[index] = value
        node = index + len(self.leaves)
        for _ in range(self.depth):
            node = node >> 1
            self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1]

    def find(self, share: NDArray[np.float64]) -> Positions:
        """Return, for each (n,) share of the total in [0, 1), the index at which the running sum exceeds this share."""
        node = np.ones(len(share), np.int64)
        mass = share * self.total
        for _ in range(self.depth):
            node = 2 * node
            left = self.sums[node]
            # Rounding may leave some mass where the right child has none.
            is_right = (mass >= left) & (self.sums[node + 1] > 0)
            mass = np.where(is_right, mass - left, mass)
            node += is_right
        return node - len(self.leaves)
