"""Sum tree for prioritised replay: draws an index with probability proportional to its value (arXiv:1511.05952)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.integer[Any]]

FAN_OUT = 32
"""Children of a node: wide, so that one NumPy call does the work of five levels of a binary tree."""


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

    def set(self, index: Indices, value: NDArray | float) -> None:
        """Set values; of several values for one index, one is stored."""
        self.leaves[index] = value
        nodes = np.unique(index // FAN_OUT)
        running = np.cumsum(self.leaves.reshape(-1, FAN_OUT)[nodes], axis=1)
        self.levels[1][nodes], self._nodes[nodes] = running, running[:, -1]
        tops = np.unique(nodes // FAN_OUT)
        self.levels[0][tops] = np.cumsum(self._nodes.reshape(-1, FAN_OUT)[tops], axis=1)

    def find(self, share: NDArray[np.float64]) -> Indices:
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
