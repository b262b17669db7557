"""Parts of a saved buffer: transitions as arrays of rows, with their positions in the storage."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.manifest import UnsuitableFolder
from rlher.her.storage import Storage
from rlher.her.trajectory import PackedEpisodes

RENAMED = {"_rest": "_goal_independent"}
"""Fields of the rows that version 2 named otherwise."""

OTHER_SPACES = "the replay buffer was saved with other observation or action spaces; use those of its environment."


def pack(storage: Storage, spans: list[tuple[int, int]]) -> dict[str, NDArray]:
    """Return transitions, given by ranges of their numbers, as arrays, in pieces of one episode each."""
    arrays: dict[str, NDArray] = {}
    for env, (ring, (start, stop)) in enumerate(zip(storage.rings, spans, strict=True)):
        rows = storage.rows_of(ring.slots(start, stop))
        episodes = storage.rows["_episode"][rows]
        begins = np.flatnonzero(np.diff(episodes, prepend=-1))
        steps, owners = np.diff(begins, append=len(rows)), episodes[begins]
        pieces = np.stack([steps, rows[begins], owners, storage.first[owners], storage.last[owners]], axis=1)
        positions = _positions(pieces)
        arrays |= {
            f"rows{env}": storage.rows.take(positions),
            f"achieved{env}": storage.achieved.take(positions, axis=0),
            f"goals{env}": storage.goals(positions, np.repeat(owners, steps + 1)),
            f"pieces{env}": pieces.astype(np.int64),
            f"start{env}": np.array(start),
        }
    return arrays


def unpack(storage: Storage, env: int, arrays: Any) -> None:
    """Write an environment's transitions of a part to their positions in the storage.

    :raises UnsuitableFolder: their types or shapes are those of other spaces.
    :raises ValueError: the part is inconsistent.
    """
    rows, achieved, goals, pieces = (arrays[f"{name}{env}"] for name in ("rows", "achieved", "goals", "pieces"))
    rows.dtype.names = tuple(RENAMED.get(name, name) for name in rows.dtype.names)
    _validate_types(storage, rows, achieved, goals)
    if not len(pieces):
        return
    ring = storage.rings[env]
    steps, _, owners, first, last = pieces.T
    positions = _positions(pieces)
    inside = [_all_within(numbers, ring.base_row, ring.n_rows) for numbers in (positions, first, last)]
    inside.append(_all_within(owners, ring.base_episode, ring.n_episodes))
    if not all(inside) or (steps < 1).any() or {len(rows), len(achieved), len(goals)} != {len(positions)}:
        raise ValueError("its pieces are inconsistent")
    storage.rows[positions], storage.achieved[positions] = rows, achieved
    if storage.row_goal is not None:
        storage.row_goal[positions] = goals
    ends = np.cumsum(steps + 1)
    storage.episode_goal[owners] = goals[ends - steps - 1]
    storage.first[owners], storage.last[owners] = first, last
    start = int(arrays[f"start{env}"])
    storage.slot_row[ring.slots(start, start + int(steps.sum()))] = np.delete(positions, ends - 1)


def pack_fixed(fixed: PackedEpisodes) -> dict[str, NDArray]:
    """Return the episodes that are never evicted as arrays."""
    return {item.name: getattr(fixed, item.name) for item in fields(fixed)}


def unpack_fixed(storage: Storage, arrays: Any) -> PackedEpisodes:
    """Return the episodes that :func:`pack_fixed` packed, for a storage of the same spaces.

    :raises UnsuitableFolder: their types or shapes are those of other spaces.
    :raises ValueError: they are inconsistent.
    """
    fixed = PackedEpisodes(*(arrays[item.name] for item in fields(PackedEpisodes)))
    _validate_types(storage, fixed.rows, fixed.achieved, fixed.goals)
    counts = {len(fixed.rows), len(fixed.achieved), len(fixed.goals)}
    if fixed.lengths.dtype != np.int64 or fixed.lengths.ndim != 1 or (fixed.lengths < 1).any():
        raise ValueError("the lengths of its demonstrations are invalid")
    owners = np.repeat(np.arange(len(fixed.lengths)), fixed.lengths + 1)
    if counts != {len(owners)} or not len(owners) or (fixed.rows["_episode"] != owners).any():
        raise ValueError("its demonstrations are inconsistent")
    return fixed


def _validate_types(storage: Storage, rows: NDArray, achieved: NDArray, goals: NDArray) -> None:
    """Raise UnsuitableFolder unless all types and shapes are the storage's, or goals of version 2 in float32."""

    def fits(found: np.dtype, wanted: np.dtype) -> bool:
        return found == wanted or (found == np.float32 and wanted == np.float64)

    achieved_goal, goal = storage.layout.achieved, storage.layout.goal
    same_types = fits(achieved.dtype, achieved_goal[0]) and fits(goals.dtype, goal[0])
    same_shapes = achieved.shape[1:] == achieved_goal[1] and goals.shape[1:] == goal[1]
    if not (rows.dtype == storage.rows.dtype and same_types and same_shapes):
        raise UnsuitableFolder(OTHER_SPACES)


def _positions(pieces: NDArray) -> NDArray[np.int64]:
    """Return the rows of pieces [steps, first row, ...], each with the row of its final observation."""
    lengths = pieces[:, 0] + 1
    begins = np.cumsum(lengths) - lengths
    return np.repeat(pieces[:, 1] - begins, lengths) + np.arange(lengths.sum())


def _all_within(numbers: NDArray, start: int, count: int) -> bool:
    return bool(numbers.min() >= start and numbers.max() < start + count)
