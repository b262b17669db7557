"""Infer from the values of ``compute_reward`` whether the reward is sparse."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


class SparseReward:
    """Collects values of ``compute_reward`` until there are three; the reward is sparse while there are two.

    :ivar values: the two values of a sparse reward, the lower first; empty while it is not known to be sparse.
    :ivar success: reward of a goal that is reached; None where it is unknown.
    """

    def __init__(self) -> None:
        self.values: list[float] = []
        self.success: float | None = None
        self._seen: set[float] = set()  # at most three, and those of exactly achieved goals
        self._exact: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether another value can still change the answer."""
        return len(self._seen) <= 2

    @property
    def needs_exact(self) -> bool:
        """Whether :meth:`observe` needs the rewards of goals that are achieved exactly: at its first call."""
        return self._exact is None

    def observe(self, rewards: Floats, exact: Floats | None) -> None:
        """Record values of ``compute_reward``.

        :param rewards: (n,) under the original goals.
        :param exact: (n,) under goals equal to the achieved ones, if :attr:`needs_exact`.
        """
        if exact is not None:
            self._exact = float(np.min(exact))
            self._seen.update(np.unique(exact)[:3].tolist())
        if self.is_open:
            self._seen.update(np.unique(rewards)[:3].tolist())
        self._conclude()

    def state(self) -> dict[str, Any]:
        """Return the recorded values as JSON values."""
        return {"values": sorted(self._seen), "perfect": self._exact}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`state`.

        :raises ValueError: a reward is not a number.
        """
        values, exact = state["values"], state["perfect"]
        if not all(isinstance(value, int | float) for value in [*values, *([] if exact is None else [exact])]):
            raise ValueError("a reward is not a number")
        self._seen, self._exact = set(values), exact
        self._conclude()

    def _conclude(self) -> None:
        self.values = sorted(self._seen) if len(self._seen) == 2 else []
        self.success = self._exact if self.values and self._exact == self.values[1] else None
