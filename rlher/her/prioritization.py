"""Which transitions are drawn: uniformly, by the energy of their episode, or by TD error."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlher.her.storage import Indices, Storage
from rlher.her.sum_tree import SumTree

NO_ERRORS = 'update_priorities needs a buffer built with priority="td_error".'


class Priority(Protocol):
    """Draws slots, and says what their bias costs."""

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Indices, NDArray | None]:
        """Return (count,) slots and (count,) importance weights, None where the draw is not to be
        corrected."""

    def update(self, slots: Indices, errors: NDArray) -> None:
        """Take the (n,) absolute TD errors of those slots."""

    def reset(self, storage: Storage) -> None:
        """Begin again with an empty storage."""

    def state(self) -> dict[str, NDArray]:
        """Return what the storage does not tell, to be saved with it."""

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take what :meth:`state` returned, the storage being loaded; from another kind of priority, nothing."""


class Uniform:
    """Every transition held is as likely as any other."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Indices, NDArray | None]:
        """Return (count,) slots."""
        return self.storage.draw(count, rng), None

    def update(self, slots: Indices, errors: NDArray) -> None:
        """Refuse: there is nothing to update."""
        raise RuntimeError(NO_ERRORS)

    def reset(self, storage: Storage) -> None:
        """Begin again with an empty storage."""
        self.storage = storage

    def state(self) -> dict[str, NDArray]:
        """Return nothing: the storage tells it all."""
        return {}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take nothing."""


class _Ranked:
    """A sum tree over the storage's slots, brought up to date when a batch is drawn."""

    def __init__(self, storage: Storage) -> None:
        self.reset(storage)

    def reset(self, storage: Storage) -> None:
        """Begin again with an empty storage."""
        self.storage = storage
        self.tree = SumTree(storage.n_envs * storage.capacity)
        self.known = [0] * storage.n_envs  # transitions ranked, of all ever added
        self.cleared = [0] * storage.n_envs  # transitions evicted and taken out of the tree

    def update(self, slots: Indices, errors: NDArray) -> None:
        """Refuse: these priorities do not follow errors."""
        raise RuntimeError(NO_ERRORS)

    def state(self) -> dict[str, NDArray]:
        """Return the numbers of the transitions ranked, oldest first, and how many those were in all."""
        leaves = {}
        for env, ring in enumerate(self.storage.rings):
            oldest = min(max(self.cleared[env], ring.total - ring.count), self.known[env])
            leaves[f"env{env}"] = self.tree.leaves[ring.numbered(oldest, self.known[env])]
        return leaves | {"known": np.array(self.known)}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take them back, the newest where less is held.

        :raises ValueError: they do not belong to what is stored.
        """
        for env, ring in enumerate(self.storage.rings):
            leaves, known = state[f"env{env}"], int(state["known"][env])
            if leaves.ndim != 1 or not (np.isfinite(leaves) & (leaves >= 0)).all() or not 0 <= known <= ring.total:
                raise ValueError("The priorities are damaged: they do not fit the transitions.")
            oldest = max(ring.total - ring.count, known - len(leaves))
            kept = max(known - oldest, 0)
            self.tree.set(ring.numbered(known - kept, known), leaves[len(leaves) - kept :])
            self.known[env], self.cleared[env] = known, ring.total - ring.count

    def _follow(self, value: float) -> None:
        """Take evicted transitions out of the tree, and give new ones that value."""
        gone, fresh = [], []
        for env, ring in enumerate(self.storage.rings):
            oldest = ring.total - ring.count
            if oldest > self.cleared[env]:
                gone.append(ring.numbered(max(self.cleared[env], oldest - ring.capacity), oldest))
            if ring.total > self.known[env]:
                fresh.append(ring.numbered(*ring.fresh(self.known[env])))
            self.cleared[env], self.known[env] = oldest, ring.total
        if gone:
            self.tree.set(np.concatenate(gone), 0.0)
        if fresh:
            self.tree.set(np.concatenate(fresh), value)

    def _pick(self, count: int, rng: np.random.Generator) -> tuple[Indices, float]:
        """Return (count,) slots, one from each of as many equal shares of the total, in random order, and
        it."""
        return self.tree.find((rng.permutation(count) + rng.random(count)) / count), self.tree.total


class TDError(_Ranked):
    """Proportional prioritised experience replay (arXiv:1511.05952).

    A transition is drawn with probability ∝ (|TD error| + ε)^α; new ones as if they had the greatest error
    seen. Weights are (N·P)^-β, divided by the greatest of the batch. The goal of a virtual transition is
    drawn after the transition, so its error stands for that of the goals it is given (as in cpprb, which
    stores them apart).

    :param storage: what to draw from.
    :param alpha: 0 is uniform, 1 proportional.
    :param beta: exponent of the weights at the start; it rises linearly to 1.
    :param beta_steps: batches over which it does.
    :param epsilon: added to errors, so that none is never drawn.
    """

    def __init__(
        self,
        storage: Storage,
        alpha: float = 0.6,
        beta: float = 0.4,
        beta_steps: int = 100_000,
        epsilon: float = 1e-3,
    ) -> None:
        if not (alpha >= 0 and 0 <= beta <= 1 and beta_steps >= 1 and epsilon > 0):
            raise ValueError("td_error needs alpha >= 0, 0 <= beta <= 1, beta_steps >= 1 and epsilon > 0.")
        self.alpha, self.beta, self.beta_steps, self.epsilon = alpha, beta, beta_steps, epsilon
        super().__init__(storage)

    def reset(self, storage: Storage) -> None:
        """Begin again with an empty storage."""
        super().reset(storage)
        self.greatest, self.batches = 1.0, 0

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Indices, NDArray | None]:
        """Return (count,) slots and (count,) importance weights in (0, 1]."""
        self._follow(self.greatest)
        slots, total = self._pick(count, rng)
        beta = self.beta + (1 - self.beta) * min(1.0, self.batches / self.beta_steps)
        self.batches += 1
        weights = (self.storage.count * self.tree.leaves[slots] / total) ** -beta
        return slots, weights / weights.max()

    def update(self, slots: Indices, errors: NDArray) -> None:
        """Take the (n,) absolute TD errors of those slots, but for transitions evicted since they were
        drawn."""
        if not np.isfinite(errors).all():
            raise ValueError("update_priorities was given TD errors that are not finite.")
        self._follow(self.greatest)
        values = (errors + self.epsilon) ** self.alpha
        held = self.tree.leaves[slots] > 0
        self.tree.set(slots[held], values[held])
        self.greatest = max(self.greatest, float(values.max(initial=0.0)))

    def state(self) -> dict[str, NDArray]:
        """Return the priorities, and what new ones and the weights follow."""
        numbers = {"alpha": self.alpha, "greatest": self.greatest, "batches": self.batches}
        return super().state() | {name: np.array(number) for name, number in numbers.items()}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take them back; with another ``alpha`` every transition counts as new."""
        if float(state.get("alpha", np.nan)) == self.alpha:
            super().restore(state)
            self.greatest, self.batches = float(state["greatest"]), int(state["batches"])


class Energy(_Ranked):
    """Energy-based prioritisation (arXiv:1810.01363): episodes in which the achieved goal moved further are
    likelier.

    An episode is drawn with probability ∝ its energy, the sum of squared displacements of the achieved goal,
    which is the kinetic part of the paper's and needs no knowledge of masses; a transition then uniformly
    from the episode. Episodes in which nothing moves keep ``floor`` of the mean energy; running ones count as
    average. As in the paper no weights correct the bias.

    :param storage: what to draw from.
    :param floor: share of the mean energy that every episode is given at least.
    """

    def __init__(self, storage: Storage, floor: float = 0.1) -> None:
        if not 0 < floor <= 1:
            raise ValueError(f"energy needs a floor above 0 and at most 1, not {floor}.")
        self.floor = floor
        super().__init__(storage)

    def reset(self, storage: Storage) -> None:
        """Begin again with an empty storage."""
        super().reset(storage)
        self.finished = [0] * storage.n_envs  # episodes ranked, of all ever begun
        self.episodes, self.energy, self.steps = 0, 0.0, 0

    def state(self) -> dict[str, NDArray]:
        """Return the ranks, and what later episodes are compared with."""
        begun = [ring.begun for ring in self.storage.rings]
        numbers = {"begun": begun, "finished": self.finished, "episodes": self.episodes, "steps": self.steps}
        return super().state() | {"energy": np.array(self.energy)} | {k: np.array(v) for k, v in numbers.items()}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take them back; in a buffer of another capacity, whose episodes are numbered anew, all are ranked anew."""
        if [ring.begun for ring in self.storage.rings] == state.get("begun", np.zeros(0)).tolist():
            super().restore(state)
            self.finished, self.energy = state["finished"].tolist(), float(state["energy"])
            self.episodes, self.steps = int(state["episodes"]), int(state["steps"])

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Indices, NDArray | None]:
        """Return (count,) slots."""
        self._rank_finished()
        return self._pick(count, rng)[0], None

    def _rank_finished(self) -> None:
        first_of = [self.known[env] for env in range(self.storage.n_envs)]
        self._follow(self.energy / self.steps if self.energy > 0 else 1.0)
        for env, ring in enumerate(self.storage.rings):
            done = ring.begun - ring.running
            if done > self.finished[env]:
                self._rank(env, first_of[env], done)
            self.finished[env] = done

    def _rank(self, env: int, since: int, done: int) -> None:
        """Rank the episodes of one environment that finished since the last batch."""
        storage, ring = self.storage, self.storage.rings[env]
        begun = range(max(self.finished[env], ring.dropped), done)
        episodes = np.array([ring.base_episode + number % ring.n_episodes for number in begun], dtype=np.int64)
        if not len(episodes):
            return
        lengths = storage.last[episodes] - storage.first[episodes]
        stop = ring.total - storage.running_steps(ring)
        slots = ring.numbered(stop - int(lengths.sum()), stop)
        rows = storage.rows_of(slots)
        before, after = (storage.achieved.take(at, axis=0).astype(np.float64) for at in (rows, rows + 1))
        moved = after - before
        squared = (moved.reshape(len(rows), -1) ** 2).sum(axis=1)
        energy = np.add.reduceat(squared, np.cumsum(lengths) - lengths)
        self.episodes, self.energy = self.episodes + len(episodes), self.energy + float(energy.sum())
        self.steps += len(rows)
        energy = np.maximum(energy, self.floor * self.energy / self.episodes)
        share = energy / lengths if energy.any() else np.ones(len(lengths))
        self.tree.set(slots, np.repeat(share, lengths))


PRIORITIES: dict[str, Callable[..., Priority]] = {
    "uniform": Uniform,
    "energy": Energy,
    "td_error": TDError,
}
