"""Priorities: which transitions are sampled (uniformly, by the energy of their episode, or by TD error).

To add a priority, write a class here, and add its name to :data:`rlher.her.choices.PRIORITIES`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.choices import PRIORITIES
from rlher.her.storage import ACHIEVED, SPAN, Ids, Positions, Storage

NEW_EPISODES = 0.01
"""Share of new episodes among those held after which ``energy`` computes its mean and all priorities again."""

GRAVITY = 9.81
"""Acceleration of gravity in m/s²."""

LARGEST_GAIN = 0.5
"""Most energy in J per kg that one step counts for, as in the authors' code: collisions throw objects faster."""

LARGEST = 1e100
"""Largest energy or TD-error priority: sums of them stay finite."""

FAN_OUT = 32
"""Children of a node of :class:`SumTree`: one NumPy call does the work of five levels of a binary tree."""


def make_priority(name: str, storage: Storage, **options: Any) -> "Priority":
    """Return the priority of that name.

    :raises TypeError: an option that it does not have.
    :raises ValueError: an unknown name, or an option out of its range.
    """
    if name not in PRIORITIES:
        raise ValueError(f"priority={name!r} is unknown; use {', '.join(PRIORITIES)}.")
    priority: type[Priority] = globals()[PRIORITIES[name]]
    return priority(storage, **options)


class Priority:
    """Samples transitions of a storage; the base class of all priorities."""

    def __init__(self, storage: Storage) -> None:
        self.reset(storage)

    def reset(self, storage: Storage) -> None:
        """Reset for a storage, all of whose transitions count as new."""
        self.storage = storage

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Ids, NDArray | None]:
        """Return (count,) ids of transitions, and (count,) importance weights; None: no correction of the bias."""
        raise NotImplementedError

    def update(self, ids: Ids, errors: NDArray) -> None:
        """Update the priorities of transitions by their (n,) absolute TD errors.

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


class Uniform(Priority):
    """Samples every transition with the same probability."""

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Ids, NDArray | None]:
        """Return (count,) ids."""
        return self.storage.sample(count, rng), None


class TreePriority(Priority):
    """Samples by a sum tree over the storage's positions, which is brought up to date before each sample.

    A new transition takes the position of an evicted one, so nothing ever has to be removed from the tree.
    """

    def reset(self, storage: Storage) -> None:
        """Reset for a storage, all of whose transitions count as new."""
        super().reset(storage)
        self.tree = SumTree(len(storage.rows))
        self.known = [0] * storage.n_envs  # per environment: number of transitions that have their final priority

    def _new(self) -> list[Ids]:
        """Return, per environment, the ids of the transitions after the known ones."""
        return [self.storage.held(env, since) for env, since in enumerate(self.known)]

    def _sample_tree(self, count: int, rng: np.random.Generator) -> tuple[Ids, Positions, float]:
        """Return (count,) ids and positions, one from each of ``count`` equal shares of the total, and the total."""
        positions = self.tree.find((rng.permutation(count) + rng.random(count)) / count)
        return self.storage.ids_at(positions), positions, self.tree.total


class TDError(TreePriority):
    """Proportional prioritised experience replay (arXiv:1511.05952).

    A transition is sampled with probability ∝ (|TD error| + ε)^α; a new one as if it had the greatest error so far.
    Weights are (N·P)^-β, divided by the greatest weight of the batch. The goal of a virtual transition is sampled after
    the transition, so its error stands for all goals it is given (as in cpprb, which stores them separately).

    :param storage: what to sample from.
    :param alpha: 0 is uniform, 1 proportional.
    :param beta: exponent of the weights at the start; it rises linearly to 1.
    :param beta_steps: batches until ``beta`` is 1.
    :param epsilon: added to errors, so that every transition can be sampled.
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
        """Reset for a storage, all of whose transitions count as new."""
        super().reset(storage)
        self.greatest, self.batches = 1.0, 0

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Ids, NDArray | None]:
        """Return (count,) ids and (count,) importance weights in (0, 1]."""
        self._enter_new()
        ids, positions, total = self._sample_tree(count, rng)
        beta = self.beta + (1 - self.beta) * min(1.0, self.batches / self.beta_steps)
        self.batches += 1
        weights = (self.storage.count * self.tree.leaves[positions] / total) ** -beta
        return ids, weights / weights.max()

    def update(self, ids: Ids, errors: NDArray) -> None:
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
        self._enter_new()
        held = self.storage.is_held(ids)
        self.tree.set(self.storage.positions(ids[held]), values[held])
        self.greatest = max(self.greatest, float(values.max(initial=0.0)))

    def _enter_new(self) -> None:
        if self.known != (total := self.storage.total[: self.storage.n_envs]):
            self.tree.set(self.storage.positions(np.concatenate(self._new())), self.greatest)
            self.known = total

    def state(self) -> dict[str, NDArray]:
        """Return the priorities of the known transitions, the greatest of all, and the number of batches."""
        self._enter_new()
        leaves = {
            f"env{env}": self.tree.leaves[self.storage.positions(self.storage.held(env))]
            for env in range(self.storage.n_envs)
        }
        numbers = {"alpha": self.alpha, "greatest": self.greatest, "batches": self.batches}
        return leaves | {name: np.array(value) for name, value in numbers.items()}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Restore the priorities; with another ``alpha`` every transition counts as new."""
        if float(state.get("alpha", np.nan)) != self.alpha:
            return
        for env in range(self.storage.n_envs):
            leaves, held = state[f"env{env}"], self.storage.held(env)
            if leaves.shape != held.shape or not (np.isfinite(leaves) & (leaves >= 0)).all():
                raise ValueError("the priorities do not fit the transitions")
            self.tree.set(self.storage.positions(held), leaves)
        self.known = self.storage.total[: self.storage.n_envs]
        self.greatest, self.batches = float(state["greatest"]), int(state["batches"])


class Energy(TreePriority):
    """Energy-based prioritisation (arXiv:1810.01363): episodes in which the object was given more energy are likelier.

    An episode is sampled with probability ∝ its energy, but at least ``floor`` times the mean energy of the finished
    episodes held; then a transition uniformly from the episode. The mean, and with it every priority, is computed again
    whenever 1 % of the episodes held are new. Running episodes count as average. As in the paper no weights correct the
    bias. If goals have parts, only the task's counts.

    With ``height`` and ``step_seconds``, the energy of an episode is the sum of what each step adds to the potential
    and kinetic energy of a unit mass at the achieved goal, from 0 to :data:`LARGEST_GAIN`. An object that is lifted
    counts more than one that is pushed, and one that falls off the table nothing for its fall. Without them it is the
    sum of squared displacements of the achieved goal, which needs no units.

    :param storage: what to sample from.
    :param floor: least energy of an episode, as a share of the mean energy.
    :param height: index of the height in a goal, which is a position in metres.
    :param step_seconds: simulated seconds of a step.
    :param goal_parts: parts of a goal (:func:`rlher.her.relabelling.keep_one_part`), of which the first is the task's.
    """

    def __init__(
        self,
        storage: Storage,
        floor: float = 0.1,
        height: int | None = None,
        step_seconds: float | None = None,
        goal_parts: int = 1,
    ) -> None:
        self.size = math.prod(storage.outcomes.shape[1:]) // goal_parts
        if not 0 < floor <= 1:
            raise ValueError(f"energy has floor={floor}; use a floor above 0 and at most 1.")
        if (height is None) != (step_seconds is None):
            raise ValueError(f"energy has height={height} and step_seconds={step_seconds}; give both or none.")
        if height is not None and not (0 <= height < self.size and 0 < (step_seconds or 0) < np.inf):
            raise ValueError(
                f"energy has height={height} and step_seconds={step_seconds}; use an index from 0 to {self.size - 1} "
                "and a finite number above 0."
            )
        self.floor, self.height, self.step_seconds = floor, height, step_seconds
        super().__init__(storage)

    def reset(self, storage: Storage) -> None:
        """Reset for a storage, all of whose transitions count as new."""
        super().reset(storage)
        # Per finished episode: its energy, and its steps when it ended.
        self.energy, self.steps = np.zeros(len(storage.first)), np.ones(len(storage.first))
        # The last mean: over episodes, per step, and the number of episodes that ended since.
        self.mean, self.per_step, self.new = 0.0, 1.0, 0

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Ids, NDArray | None]:
        """Return (count,) ids."""
        envs = range(self.storage.n_envs)
        added = self._new()
        for env in envs:
            self._compute_energies(env, added[env])
        if self.new and self.new >= NEW_EPISODES * self.storage.n_episodes:
            self._compute_mean()
            added = [self.storage.held(env) for env in envs]
        for env in envs:
            self._rank(env, added[env])
        return self._sample_tree(count, rng)[0], None

    def _compute_energies(self, env: int, ids: Ids) -> None:
        """Compute the energies of an environment's episodes that have ended since the last call.

        :param ids: of all transitions after the episodes that had ended before.
        """
        storage = self.storage
        ended = len(ids)
        if storage.running[env]:
            ended = int(np.searchsorted(ids, storage.first[storage.episode[env]]))
        self.known[env] = storage.total[env] - (len(ids) - ended)
        if ended == 0:
            return
        positions = storage.positions(ids[:ended])
        episodes = storage.rows["_episode"][positions]
        starts = np.flatnonzero(np.diff(episodes, prepend=-1))
        after = storage.outcomes.take(positions, axis=0).reshape(ended, -1)[:, : self.size].astype(np.float64)
        before = np.concatenate((after[:1], after[:-1]))
        first = storage.rows[ACHIEVED][positions[starts]].reshape(len(starts), -1)
        before[starts] = first[:, : self.size]
        energy = np.add.reduceat(self._energy_of_steps(after - before, starts), starts)
        self.energy[episodes[starts]] = np.minimum(energy, LARGEST)
        self.steps[episodes[starts]] = np.diff(starts, append=ended)
        self.new += len(starts)

    def _energy_of_steps(self, moves: NDArray, starts: NDArray) -> NDArray:
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
        held = []
        for env in range(self.storage.n_envs):
            ids = self.storage.held(env)
            episodes = self.storage.rows["_episode"][self.storage.positions(ids[ids & (SPAN - 1) < self.known[env]])]
            held.append(episodes[np.flatnonzero(np.diff(episodes, prepend=-1))])
        energies, steps = (each[np.concatenate(held)] for each in (self.energy, self.steps))
        self.mean, self.new = float(energies.mean()), 0
        # Priorities below the smallest normal number would be rounded to 0.
        if self.mean < 1e-200:
            self.mean, self.per_step = 0.0, 1.0
        else:
            self.per_step = float(energies.sum() / steps.sum())

    def _rank(self, env: int, ids: Ids) -> None:
        """Set the priorities of an environment's transitions."""
        if not len(ids):
            return
        positions = self.storage.positions(ids)
        episodes = self.storage.rows["_episode"][positions]
        priority = np.maximum(self.energy[episodes], self.floor * self.mean) / self.steps[episodes]
        if self.mean == 0:
            priority[:] = 1.0
        if self.storage.running[env]:
            priority[episodes == self.storage.episode[env]] = self.per_step
        self.tree.set(positions, priority)

    def state(self) -> dict[str, NDArray]:
        """Return the energies, and the last mean with its unit."""
        used = slice(0, self.storage.episodes_used)
        numbers = {"mean": self.mean, "per_step": self.per_step, "new": self.new, "known": self.known}
        arrays = {"energy": self.energy[used], "steps": self.steps[used]} | self._unit()
        return arrays | {name: np.array(value) for name, value in numbers.items()}

    def _unit(self) -> dict[str, NDArray]:
        options = {"height": self.height, "step_seconds": self.step_seconds}
        return {name: np.array(np.nan if value is None else value) for name, value in options.items()}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Restore energies and mean; in another unit every episode counts as new."""
        if not all(np.array_equal(state.get(name, 0), now, equal_nan=True) for name, now in self._unit().items()):
            return
        numbers = [*state["energy"], *state["steps"] - 1, state["mean"], *state["known"]]
        if not (np.isfinite(numbers).all() and min(numbers) >= 0 and 0 < state["per_step"] < np.inf):
            raise ValueError("the energies are not finite numbers of at least 0")
        used = slice(0, len(state["energy"]))  # the saved buffer may have used more episodes than are left
        self.energy[used], self.steps[used] = state["energy"], state["steps"]
        self.known = state["known"].astype(int).tolist()
        self.mean, self.per_step, self.new = float(state["mean"]), float(state["per_step"]), int(state["new"])
        for env in range(self.storage.n_envs):
            self._rank(env, self.storage.held(env))


class SumTree:
    """Non-negative values, one of which is drawn with probability proportional to it.

    Two levels of nodes hold the running sums of their children; above them, one search in a running sum is enough.
    Sums are always recomputed from the children, so that rounding errors do not accumulate.

    :param size: number of values.
    """

    def __init__(self, size: int) -> None:
        nodes = -(-size // FAN_OUT)
        tops = -(-nodes // FAN_OUT)
        self.leaves = np.zeros(nodes * FAN_OUT)
        self.levels = [np.zeros((tops, FAN_OUT)), np.zeros((nodes, FAN_OUT))]  # running sums: of nodes, of leaves
        self._nodes = np.zeros(tops * FAN_OUT)  # sums of nodes

    @property
    def total(self) -> float:
        """Sum of all values."""
        return float(self.levels[0][:, -1].sum())

    def set(self, index: Positions, value: NDArray | float) -> None:
        """Set values; of several values for one index, one is stored."""
        self.leaves[index] = value
        nodes = np.unique(index // FAN_OUT)
        running = np.cumsum(self.leaves.reshape(-1, FAN_OUT)[nodes], axis=1)
        self.levels[1][nodes], self._nodes[nodes] = running, running[:, -1]
        tops = np.unique(nodes // FAN_OUT)
        self.levels[0][tops] = np.cumsum(self._nodes.reshape(-1, FAN_OUT)[tops], axis=1)

    def find(self, share: NDArray[np.float64]) -> Positions:
        """Return, for each (n,) share of the total in [0, 1), the index at which the running sum exceeds it."""
        running = np.cumsum(self.levels[0][:, -1])
        mass = share * running[-1]
        index = np.minimum(np.searchsorted(running, mass, side="right"), len(running) - 1)
        remaining = mass - running[index] + self.levels[0][index, -1]
        for level in self.levels:
            sums = level.take(index, axis=0)
            # Rounding may leave the remaining mass slightly outside the node.
            remaining = np.clip(remaining, 0.0, np.nextafter(sums[:, -1], 0.0))
            child = (sums > remaining[:, None]).argmax(axis=1)
            index = index * FAN_OUT + child
            before = sums.reshape(-1).take(np.arange(0, sums.size, FAN_OUT) + child - 1)
            remaining = remaining - np.where(child > 0, before, 0.0)
        return index
