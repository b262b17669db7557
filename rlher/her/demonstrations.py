"""The share of a batch that is drawn from demonstrations, which are the storage's fixed episodes.

It is drawn uniformly and relabelled with the rest of the batch, with the same proportion of virtual transitions.
"""

import numpy as np
from numpy.typing import NDArray

NO_ID = -1
"""In place of the id of a transition whose priority is not updated."""


def demonstration_places(batch_size: int, fraction: float, her_ratio: float) -> slice:
    """Return the places of demonstrations in a batch: around the border between real and virtual transitions.

    :param fraction: share of the demonstrations, of which one at least is drawn, and never a whole batch.
    :param her_ratio: share of the virtual transitions, both of the batch and of the demonstrations.
    """
    count = min(max(round(fraction * batch_size), 1), batch_size - 1)
    border, virtual = batch_size - int(her_ratio * batch_size), int(her_ratio * count)
    return slice(border - (count - virtual), border + virtual)


def insert(values: NDArray, places: slice, inserted: NDArray | float) -> NDArray:
    """Return values with others inserted, so that those are at ``places``.

    :param inserted: as many as there are places, or one value for all of them.
    """
    joined = np.empty(len(values) + places.stop - places.start, dtype=values.dtype)
    joined[: places.start], joined[places.stop :] = values[: places.start], values[places.start :]
    joined[places] = inserted
    return joined
