"""The replay buffer on disk: one file of plain arrays, as ``numpy.savez`` writes them, without pickle.

Transitions are loaded to the same positions, so the same samples and the same evictions follow, bit for bit.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.core.reading import open_arrays
from rlher.core.writing import atomic_write
from rlher.her.storage import Storage

FILE_VERSION = 19
METADATA_ARRAY = "metadata"
"""Name of the array that holds the file's metadata as JSON text."""
PRIORITY_PREFIX = "priorities/"
"""Prefix of the names of the priorities' arrays."""


def save(storage: Storage, path: str | os.PathLike, extra: dict[str, Any], priorities: Mapping[str, NDArray]) -> None:
    """Write a storage into a file.

    :param storage: storage to save.
    :param extra: JSON values to save with the storage.
    :param priorities: arrays to save with the storage.
    :raises OSError: the file cannot be written; an existing file is unchanged.
    """
    metadata = {"version": FILE_VERSION, "layout": storage.layout.description, "extra": extra}
    with atomic_write(Path(path)) as temporary, temporary.open("wb") as file:
        arrays: Any = {f"{PRIORITY_PREFIX}{name}": array for name, array in priorities.items()} | storage.state_dict()
        np.savez(file, **{METADATA_ARRAY: np.array(json.dumps(metadata)), **arrays})


def load(path: str | os.PathLike, present: Storage) -> tuple[Storage, dict[str, Any], dict[str, NDArray]]:
    """Return the storage in a file, and its ``extra`` and ``priorities``.

    :param present: a storage with the same spaces, capacity and number of environments as the saved storage must have.
    :raises Exception: these differ, the file holds no storage, or JSON, NumPy or zip find that the file is damaged.
    """
    with open_arrays(Path(path)) as stored:
        arrays = dict(stored)
    metadata = json.loads(str(arrays.pop(METADATA_ARRAY))) if METADATA_ARRAY in arrays else {}
    if metadata.get("version") != FILE_VERSION:
        raise ValueError("it holds no replay buffer, or one of another version of rlher")
    if metadata["layout"] != present.layout.description:
        raise ValueError("it has other spaces; use its environment")
    capacity, n_envs, _ = map(int, arrays["sizes"])
    if (capacity, n_envs) != (present.capacity, present.n_envs):
        raise ValueError(f"it has buffer_size={capacity * n_envs} and n_envs={n_envs}; use the same")
    prefix = PRIORITY_PREFIX
    priorities = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return Storage.from_state_dict(present.layout, arrays), metadata["extra"], priorities
