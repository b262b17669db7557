"""Virtual goals made of slots, of which each goal uses one, for relay sub-goals (``rlher.envs.relay``)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def keep_one_slot(goals: NDArray, shares: Sequence[float], rng: np.random.Generator) -> NDArray:
    """Return goals with one random slot each; the other slots are zero.

    :param goals: (n, slots × size).
    :param shares: (slots,) probability of each slot.
    """
    count, slots = len(goals), len(shares)
    limits = np.cumsum(shares)
    chosen = np.searchsorted(limits / limits[-1], rng.random(count), side="right")
    wide = goals.reshape(count, slots, -1)
    return np.where((np.arange(slots) == chosen[:, None])[:, :, None], wide, 0).reshape(goals.shape)
