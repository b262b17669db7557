"""Priorities: which transitions are drawn (uniformly, by the energy of their episode, or by TD error).

To add a priority, write a class here, and add its name to :data:`rlher.her.choices.PRIORITIES`.
"""

import inspect
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.choices import PRIORITIES
from rlher.her.ring import Ring
from rlher.her.storage import Indices, Storage
from rlher.her.sum_tree import SumTree
from rlher.her.validation import validate_types

NEW_EPISODES = 0.01
"""Share of new episodes among those held after which ``energy`` computes its mean and all priorities again."""

GRAVITY = 9.81
"""Acceleration of gravity in m/s²."""

LARGEST_GAIN = 0.5
"""Most energy in J per kg that one step counts for, as in the authors' code: collisions throw objects faster."""

LARGEST = 1e100
"""Largest energy or TD-error priority: sums of them stay finite."""


def make_priority(name: str, storage: Storage, **options: Any) -> "Uniform":
    """Return the priority of that name.

    :raises TypeError: an option that it does not have, or of another type.
    :raises ValueError: an option out of its range.
    """
    priority = globals()[PRIORITIES[name]]
    known = [option for option in inspect.signature(priority).parameters if option != "storage"]
    if unknown := options.keys() - set(known):
        raise TypeError(
            f"priority_kwargs={options!r} has {', '.join(map(repr, sorted(unknown)))}, which priority={name!r} lacks; "
            f"it has {', '.join(known) or 'none'}."
        )
    validate_types(priority.__init__, options)
    return priority(storage, **options)


class Uniform:
    """Draws every transition with the same probability; the base class of the other priorities."""

    def __init__(self, storage: Storage) -> None:
        self.reset(storage)

    def reset(self, storage: Storage) -> None:
        """Reset for an empty storage."""
        self.storage = storage

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Indices, NDArray | None]:
        """Return (count,) slots and (count,) importance weights; None: no correction of the bias."""
        return self.storage.draw(count, rng), None

    def update(self, ids: Indices, errors: NDArray) -> None:
        """Update the priorities of transitions by their (n,) absolute TD errors.

        :param ids: (n,) of the transitions, from :meth:`Storage.ids_of`.
        :raises RuntimeError: these priorities do not depend on errors.
        """
        raise RuntimeError('update_priorities needs a buffer with priority="td_error".')

    def state(self) -> dict[str, NDArray]:
        """Return the state that cannot be computed from the storage, to be saved with it."""
        return {}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Restore a value of :meth:`state` after the storage is loaded; ignore that of another priority.

        :raises ValueError: it does not fit the storage.
        """


class _Tree(Uniform):
    """Draws by a sum tree over the storage's slots, which is updated before each draw."""

    def reset(self, storage: Storage) -> None:
        """Reset for an empty storage."""
        self.storage = storage
        self.tree = SumTree(storage.n_envs * storage.capacity)
        self.known = [0] * storage.n_envs  # per environment: number of transitions entered into the tree
        self.cleared = [0] * storage.n_envs  # per environment: number of evicted transitions removed from the tree

    def _follow_storage(self, value: float) -> None:
        """Remove evicted transitions from the tree, and enter new ones with that value."""
        evicted, added = [], []
        for env, ring in enumerate(self.storage.rings):
            oldest, stop = self.storage.drawable(ring)
            if oldest > self.cleared[env]:
                evicted.append(ring.slots(max(self.cleared[env], oldest - ring.capacity), oldest))
            if stop > self.known[env]:
                added.append(ring.slots(max(self.known[env], oldest), stop))
            self.cleared[env], self.known[env] = oldest, stop
        if evicted:
            self.tree.set(np.concatenate(evicted), 0.0)
        if added:
            self.tree.set(np.concatenate(added), value)

    def _draw_slots(self, count: int, rng: np.random.Generator) -> tuple[Indices, float]:
        """Return (count,) slots, one from each of ``count`` equal shares of the total, shuffled, and the total."""
        return self.tree.find((rng.permutation(count) + rng.random(count)) / count), self.tree.total


class TDError(_Tree):
    """Proportional prioritised experience replay (arXiv:1511.05952).

    A transition is drawn with probability ∝ (|TD error| + ε)^α; a new one as if it had the greatest error so far.
    Weights are (N·P)^-β, divided by the greatest weight of the batch. The goal of a virtual transition is drawn after
    the transition, so its error stands for all goals it is given (as in cpprb, which stores them separately).

    :param storage: what to draw from.
    :param alpha: 0 is uniform, 1 proportional.
    :param beta: exponent of the weights at the start; it rises linearly to 1.
    :param beta_steps: batches until ``beta`` is 1.
    :param epsilon: added to errors, so that every transition can be drawn.
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
        self.alpha, self.beta, self.beta_steps, self.epsilon = alpha, beta, beta_steps, epsilon
        super().__init__(storage)

    def reset(self, storage: Storage) -> None:
        """Reset for an empty storage."""
        super().reset(storage)
        self.greatest, self.batches = 1.0, 0

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Indices, NDArray | None]:
        """Return (count,) slots and (count,) importance weights in (0, 1]."""
        self._follow_storage(self.greatest)
        slots, total = self._draw_slots(count, rng)
        beta = self.beta + (1 - self.beta) * min(1.0, self.batches / self.beta_steps)
        self.batches += 1
        weights = (self.storage.n_drawable * self.tree.leaves[slots] / total) ** -beta
        return slots, weights / weights.max()

    def update(self, ids: Indices, errors: NDArray) -> None:
        """Update the priorities of transitions by their (n,) absolute TD errors; ids of evicted ones are ignored.

        :raises ValueError: an error is not finite, or too large for a sum of priorities.
        """
        with np.errstate(over="ignore"):
            values = (errors + self.epsilon) ** self.alpha
        if not (np.isfinite(errors).all() and (values <= LARGEST).all()):
            raise ValueError(
                f"TD errors up to {np.max(errors)} are no priorities: they must be finite, and (error + epsilon)^alpha "
                f"at most {LARGEST:g}; check the critic for divergence."
            )
        self._follow_storage(self.greatest)
        slots, held = self.storage.slots_of(ids)
        held &= self.tree.leaves[slots] > 0
        self.tree.set(slots[held], values[held])
        self.greatest = max(self.greatest, float(values.max(initial=0.0)))

    def state(self) -> dict[str, NDArray]:
        """Return the priorities, the greatest of them, and the number of batches."""
        leaves = {}
        for env, ring in enumerate(self.storage.rings):
            oldest = min(max(self.cleared[env], ring.total - ring.count), self.known[env])
            leaves[f"env{env}"] = self.tree.leaves[ring.slots(oldest, self.known[env])]
        numbers = {"alpha": self.alpha, "greatest": self.greatest, "batches": self.batches}
        return leaves | {"known": np.array(self.known)} | {name: np.array(value) for name, value in numbers.items()}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Restore the priorities of transitions still held; with another ``alpha`` every transition counts as new."""
        if float(state.get("alpha", np.nan)) != self.alpha:
            return
        for env, ring in enumerate(self.storage.rings):
            leaves, known = state[f"env{env}"], int(state["known"][env])
            if leaves.ndim != 1 or not (np.isfinite(leaves) & (leaves >= 0)).all() or not 0 <= known <= ring.total:
                raise ValueError("the priorities do not fit the transitions")
            oldest = max(ring.total - ring.count, known - len(leaves))
            kept = max(known - oldest, 0)
            self.tree.set(ring.slots(known - kept, known), leaves[len(leaves) - kept :])
            self.known[env], self.cleared[env] = known, ring.total - ring.count
        self.greatest, self.batches = float(state["greatest"]), int(state["batches"])


class Energy(_Tree):
    """Energy-based prioritisation (arXiv:1810.01363): episodes in which the object was given more energy are likelier.

    An episode is drawn with probability ∝ its energy, but at least ``floor`` times the mean energy of the finished
    episodes held; then a transition uniformly from the episode. The mean, and with it every priority, is computed again
    whenever 1 % of the episodes held are new. Running episodes count as average. As in the paper no weights correct the
    bias. If goals have slots, only the task's counts.

    With ``height`` and ``step_seconds``, the energy of an episode is the sum of what each step adds to the potential
    and kinetic energy of a unit mass at the achieved goal, from 0 to :data:`LARGEST_GAIN`. An object that is lifted
    counts more than one that is pushed, and one that falls off the table nothing for its fall. Without them it is the
    sum of squared displacements of the achieved goal, which needs no units.

    :param storage: what to draw from.
    :param floor: least energy of an episode, as a share of the mean energy.
    :param height: index of the height in a goal, which is a position in metres.
    :param step_seconds: simulated seconds of a step.
    """

    def __init__(
        self, storage: Storage, floor: float = 0.1, height: int | None = None, step_seconds: float | None = None
    ) -> None:
        if not 0 < floor <= 1:
            raise ValueError(f"energy has floor={floor}; use a floor above 0 and at most 1.")
        if (height is None) != (step_seconds is None):
            raise ValueError(f"energy has height={height} and step_seconds={step_seconds}; give both or none.")
        if height is not None and step_seconds is not None:
            size = math.prod(storage.achieved.shape[1:]) // storage.goal_slots
            if not (0 <= height < size and 0 < step_seconds < np.inf):
                raise ValueError(
                    f"energy has height={height} and step_seconds={step_seconds}; use an index from 0 to {size - 1} "
                    "and a finite number above 0."
                )
        self.floor, self.height, self.step_seconds = floor, height, step_seconds
        super().__init__(storage)

    def reset(self, storage: Storage) -> None:
        """Reset for an empty storage."""
        super().reset(storage)
        self.energy = np.zeros(len(storage.first))  # by episode
        self.finished = [0] * storage.n_envs  # per environment: number of episodes whose energy is known
        # The last mean: over episodes, per step, and the number of finished episodes at that time.
        self.mean, self.per_step, self.ranked = 0.0, 1.0, 0

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Indices, NDArray | None]:
        """Return (count,) slots."""
        self._follow_storage(self.per_step)
        rings = self.storage.rings
        since = [max(done, ring.dropped) for done, ring in zip(self.finished, rings, strict=True)]
        if self.finished != [ring.finished for ring in rings]:
            self._compute_energies(since)
            self._rank(since)
        new = sum(self.finished) - self.ranked
        if new and new >= NEW_EPISODES * sum(ring.finished - ring.dropped for ring in rings):
            self._compute_mean()
            self._rank([ring.dropped for ring in rings])
        return self._draw_slots(count, rng)[0], None

    def state(self) -> dict[str, NDArray]:
        """Return the last mean and its unit; energies and priorities follow from it and the storage."""
        new = sum(ring.finished for ring in self.storage.rings) - self.ranked
        numbers = {"mean": self.mean, "per_step": self.per_step, "new": new}
        return {name: np.array(value) for name, value in numbers.items()} | self._unit()

    def _unit(self) -> dict[str, NDArray]:
        options = {"height": self.height, "step_seconds": self.step_seconds}
        return {name: np.array(np.nan if value is None else value) for name, value in options.items()}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Compute energies and priorities of the loaded episodes, with the last mean if it is known, in this unit."""
        rings = self.storage.rings
        self._compute_energies([ring.dropped for ring in rings])
        # In older files, which lack the unit, the mean is that of displacements or of the same options.
        same_unit = all(np.array_equal(state.get(name, now), now, equal_nan=True) for name, now in self._unit().items())
        if "mean" in state and same_unit:
            self.mean, self.per_step = float(state["mean"]), float(state["per_step"])
            self.ranked = sum(self.finished) - int(state["new"])
            if not (np.isfinite(self.mean) and np.isfinite(self.per_step) and self.mean >= 0 and self.per_step > 0):
                raise ValueError("the mean energy is not a finite number of at least 0")
        else:
            self._compute_mean()
        self._follow_storage(self.per_step)
        self._rank([ring.dropped for ring in rings])

    def _compute_energies(self, since: list[int]) -> None:
        """Compute the energy of the finished episodes of each environment from the given number on."""
        for env, (ring, start) in enumerate(zip(self.storage.rings, since, strict=True)):
            episodes = ring.episodes(start, ring.finished)
            self.finished[env] = ring.finished
            if len(episodes):
                lengths, slots = self._lengths_and_slots(ring, episodes)
                rows, starts = self.storage.rows_of(slots), np.cumsum(lengths) - lengths
                moves = self.storage.task_goals(rows + 1) - self.storage.task_goals(rows)
                energy = np.add.reduceat(self._energy_of_steps(moves, starts), starts)
                self.energy[episodes] = np.minimum(energy, LARGEST)

    def _energy_of_steps(self, moves: NDArray, starts: Indices) -> NDArray:
        """Return (n,) the energy of steps from the (n, size) displacements of their achieved goals.

        :param starts: the first step of each episode, before which the object is at rest.
        """
        squared = (moves**2).sum(axis=1)
        if self.height is None or self.step_seconds is None:
            return squared
        kinetic = squared / (2 * self.step_seconds**2)
        before = np.concatenate([[0.0], kinetic[:-1]])
        before[starts] = 0
        return (kinetic - before + GRAVITY * moves[:, self.height]).clip(0, LARGEST_GAIN)

    def _compute_mean(self) -> None:
        """Compute the mean energy of the finished episodes held, per episode and per step."""
        rings = self.storage.rings
        held = np.concatenate([ring.episodes(ring.dropped, ring.finished) for ring in rings])
        self.ranked = sum(ring.finished for ring in rings)
        self.mean = float(self.energy[held].mean()) if len(held) else 0.0
        steps = (self.storage.last[held] - self.storage.first[held]).sum()
        # Priorities below the smallest normal number would be rounded to 0.
        if self.mean < 1e-200:
            self.mean, self.per_step = 0.0, 1.0
        else:
            self.per_step = float(self.energy[held].sum() / steps)

    def _rank(self, since: list[int]) -> None:
        """Set the priorities of each environment's finished episodes from number ``since[env]`` on.

        If that is its oldest episode, also set the priority of its running episode.
        """
        for ring, start in zip(self.storage.rings, since, strict=True):
            episodes = ring.episodes(start, ring.finished)
            if len(episodes):
                lengths, slots = self._lengths_and_slots(ring, episodes)
                energy = np.maximum(self.energy[episodes], self.floor * self.mean)
                share = energy / lengths if self.mean > 0 else np.ones(len(lengths))
                self.tree.set(slots, np.repeat(share, lengths))
            running = self.storage.running_steps(ring)
            if start == ring.dropped and running and self.storage.sample_running:
                self.tree.set(ring.newest(running), self.per_step)

    def _lengths_and_slots(self, ring: Ring, episodes: Indices) -> tuple[NDArray, Indices]:
        """Return the lengths of the newest finished episodes of a ring, and the slots of all their steps."""
        lengths = self.storage.last[episodes] - self.storage.first[episodes]
        stop = ring.total - self.storage.running_steps(ring)
        return lengths, ring.slots(stop - int(lengths.sum()), stop)
