"""The share of a batch that is drawn from demonstrations, which are the storage's fixed episodes.

It is drawn uniformly and relabelled with the rest of the batch, with the same proportion of virtual transitions.
"""

import numpy as np
from numpy.typing import NDArray

NO_ID = -1
"""In place of the id of a transition whose priority is not updated."""


def demonstration_count(batch_size: int, fraction: float) -> int:
    """Return the number of demonstrations in a batch: one at least, and never a whole batch."""
    return min(max(round(fraction * batch_size), 1), batch_size - 1)


def insert(values: NDArray, places: slice, inserted: NDArray | float) -> NDArray:
    """Return values with others inserted, so that those are at ``places``.

    :param inserted: as many as there are places, or one value for all of them.
    """
    joined = np.empty(len(values) + places.stop - places.start, dtype=values.dtype)
    joined[: places.start], joined[places.stop :] = values[: places.start], values[places.start :]
    joined[places] = inserted
    return joined
