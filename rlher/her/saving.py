"""The replay buffer on disk: one file of plain arrays, as ``numpy.savez`` writes them, without pickle.

Transitions are loaded to the same positions, so the same samples and the same evictions follow, bit for bit.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.core.files import atomic_write
from rlher.core.safe_files import open_arrays
from rlher.her.storage import Storage

FILE_VERSION = 12
METADATA_ARRAY = "state"
"""Name of the array that holds the metadata of the file, as JSON text."""
PRIORITY_PREFIX = "priorities/"
"""Prefix of the names of the priorities' arrays."""


def save(storage: Storage, path: str | os.PathLike, extra: dict[str, Any], priorities: Mapping[str, NDArray]) -> None:
    """Write a storage into a file.

    :param storage: what to save, without infos, which may be any objects.
    :param extra: JSON values to save with it.
    :param priorities: arrays to save with it.
    :raises OSError: it cannot be written; the file is unchanged.
    """
    state = {
        "version": FILE_VERSION,
        "layout": storage.layout.description,
        "sizes": storage.ring_sizes.tolist(),
        "n_envs": storage.n_envs,
        "added": storage.ring_added.tolist(),
        "running": storage.ring_running.tolist(),
        "extra": extra,
    }
    with atomic_write(Path(path)) as temporary, temporary.open("wb") as file:
        arrays: Any = {f"{PRIORITY_PREFIX}{name}": array for name, array in priorities.items()} | storage.state_dict()
        np.savez(file, **{METADATA_ARRAY: np.array(json.dumps(state)), **arrays})


def load(
    path: str | os.PathLike, make_storage: Callable[[int], Storage]
) -> tuple[Storage, dict[str, Any], dict[str, NDArray]]:
    """Return a storage with the content of a file, and the ``extra`` and ``priorities`` that it was saved with.

    :param make_storage: returns an empty storage for the given number of steps of demonstrations.
    :raises Exception: the file holds no buffer, or one of other spaces, another capacity or another number of
        environments; or one of JSON, NumPy or zip, because it is damaged.
    """
    with open_arrays(Path(path)) as stored:
        arrays = dict(stored)
    state = json.loads(str(arrays.pop(METADATA_ARRAY))) if METADATA_ARRAY in arrays else {}
    if state.get("version") != FILE_VERSION:
        raise ValueError("it holds no replay buffer that this version can read; check the path")
    sizes, n_envs = state["sizes"], state["n_envs"]
    storage = make_storage(sum(sizes[n_envs:]))
    if state["layout"] != storage.layout.description:
        raise ValueError("it has other spaces; use its environment")
    if (n_envs, sizes) != (storage.n_envs, storage.ring_sizes.tolist()):
        raise ValueError(f"it has buffer_size={sum(sizes[:n_envs])} and n_envs={n_envs}; use the same")
    storage.ring_added[:], storage.ring_running[:] = state["added"], state["running"]
    storage.load_state_dict(arrays)
    prefix = PRIORITY_PREFIX
    priorities = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return storage, state["extra"], priorities
