"""Whether ``compute_reward`` is sparse, judged by the values it returned."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


class SparseReward:
    """Collects values of ``compute_reward`` until there are three; the reward is sparse while there are two."""

    def __init__(self) -> None:
        self._values: set[float] = set()  # at most three, and those of exactly achieved goals
        self._exact: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether another value can still change the answer."""
        return len(self._values) <= 2

    @property
    def needs_exact(self) -> bool:
        """Whether :meth:`observe` needs the rewards of goals that are achieved exactly: at its first call."""
        return self._exact is None

    @property
    def values(self) -> list[float]:
        """The two values of a sparse reward, the lower first; empty while the reward is not known to be sparse."""
        return sorted(self._values) if len(self._values) == 2 else []

    @property
    def success(self) -> float | None:
        """Reward of a goal that is reached; None where it is unknown."""
        return self._exact if self.values and self._exact == max(self._values) else None

    def observe(self, rewards: Floats, exact: Floats | None) -> None:
        """Take values of ``compute_reward``.

        :param rewards: (n,) under the original goals.
        :param exact: (n,) under goals equal to the achieved ones, if :attr:`needs_exact`.
        """
        if exact is not None:
            self._exact = float(np.min(exact))
            self._values.update(np.unique(exact)[:3].tolist())
        if self.is_open:
            self._values.update(np.unique(rewards)[:3].tolist())

    def state(self) -> dict[str, Any]:
        """Return the values as JSON."""
        return {"values": sorted(self._values), "perfect": self._exact}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back a value of :meth:`state`.

        :raises ValueError: a reward is not a number.
        """
        values, exact = state["values"], state["perfect"]
        if not all(isinstance(value, int | float) for value in [*values, *([] if exact is None else [exact])]):
            raise ValueError("a reward is not a number")
        self._values, self._exact = set(values), exact
