"""The storage on disk: plain arrays without pickle; a save writes only what is new.

A folder holds ``buffer.json`` and, for each save, a file of the transitions that were added or changed since the save
before it, with the episodes they belong to. Transitions are loaded to the same positions, so the same samples and the
same evictions follow, bit for bit. Priorities, which change all the time, are written whole. Each file is written
atomically, the manifest last: a save that is interrupted leaves the previous one intact.
"""

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.core.files import atomic_write, write_json
from rlher.core.safe_read import stored_arrays
from rlher.her.storage import SPAN, Ids, Storage

VERSION = 10
MANIFEST = "buffer.json"

Spans = list[list[int]]
"""For each ring of the storage, a range of the numbers of its transitions."""


class UnsuitableFolder(ValueError):
    """A folder contains no replay buffer, or one of another version, other spaces or another size."""


def save(storage: Storage, folder: str | os.PathLike, extra: dict[str, Any], priorities: dict[str, NDArray]) -> int:
    """Bring a folder up to date with the storage.

    :param storage: what to save, without infos, which may be any objects.
    :param folder: created if missing; files of another buffer in it, or of another state, are replaced.
    :param extra: JSON values to save with it.
    :param priorities: arrays to save with it, written whole each time.
    :return: bytes written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = _read_manifest(folder)
    files, saved = manifest.get("files", []), storage.saved
    if manifest.get("name") != storage.last_save:  # it does not hold the state at this storage's last save
        files, saved = [], np.zeros_like(storage.added)
    name, written = uuid.uuid4().hex, 0
    oldest = np.maximum(storage.added - storage.sizes, 0)
    spans = np.stack((np.maximum(oldest, saved), storage.added), axis=1).tolist()
    if any(stop > start for start, stop in spans):
        files.append({"file": f"transitions-{name}.npz", "spans": spans})
        written += _write(folder / files[-1]["file"], storage.export(_ids(spans)))
    if priorities:
        written += _write(folder / f"priorities-{name}.npz", priorities)
    manifest = {
        "version": VERSION,
        "name": name,
        "layout": str(storage.layout),
        "sizes": storage.sizes.tolist(),
        "n_envs": storage.n_envs,
        "added": storage.added.tolist(),
        "running": storage.running.tolist(),
        "files": [each for each in files if any(s[1] > o for s, o in zip(each["spans"], oldest, strict=True))],
        "priorities": f"priorities-{name}.npz" if priorities else None,
        "extra": extra,
    }
    write_json(folder / MANIFEST, manifest)
    storage.mark_saved(name)
    used = {each["file"] for each in manifest["files"]} | {manifest["priorities"]}
    for file in folder.glob("*.npz"):
        if file.name.startswith(("transitions-", "priorities-")) and file.name not in used:
            file.unlink()
    return written + (folder / MANIFEST).stat().st_size


def load(
    folder: str | os.PathLike, make_storage: Callable[[int], Storage]
) -> tuple[Storage, dict[str, Any], dict[str, NDArray]]:
    """Return a storage with the content of a folder; a later save there writes only what is new.

    :param make_storage: returns an empty storage for that many steps of demonstrations.
    :return: the storage, and the ``extra`` and the ``priorities`` it was saved with.
    :raises UnsuitableFolder: the folder holds no buffer, or one of other spaces, another capacity or another number of
        environments.
    :raises Exception: of JSON, NumPy or zip: a file is damaged.
    """
    folder = Path(folder)
    manifest = _validated(folder)
    sizes, n_envs = manifest["sizes"], manifest["n_envs"]
    storage = make_storage(sum(sizes[n_envs:]))
    if manifest["layout"] != str(storage.layout):
        raise UnsuitableFolder(
            f"the replay buffer in {folder} has other observation or action spaces; use its environment."
        )
    if (n_envs, sizes) != (storage.n_envs, storage.sizes.tolist()):
        raise UnsuitableFolder(
            f"the replay buffer in {folder} has buffer_size={sum(sizes[:n_envs])} and n_envs={n_envs}; use the same."
        )
    storage.added[:], storage.running[:] = manifest["added"], manifest["running"]
    for each in manifest["files"]:
        with stored_arrays(folder / each["file"]) as arrays:
            storage.restore(_ids(each["spans"]), arrays)
    storage.rebuild_index()
    storage.mark_saved(manifest["name"])
    if manifest["priorities"] is None:
        return storage, manifest["extra"], {}
    with stored_arrays(folder / manifest["priorities"]) as arrays:
        return storage, manifest["extra"], dict(arrays)


def _ids(spans: Spans) -> Ids:
    """Return the ids of all transitions of the spans."""
    return np.concatenate([ring * SPAN + np.arange(start, stop) for ring, (start, stop) in enumerate(spans)])


def _write(path: Path, arrays: dict[str, NDArray]) -> int:
    with atomic_write(path) as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]
    return path.stat().st_size


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Return a folder's manifest, empty where there is none.

    :raises ValueError: it is not JSON.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        return {}
    return manifest


def _validated(folder: Path) -> dict[str, Any]:
    """Return a folder's manifest after checking its version and the names of its files.

    :raises UnsuitableFolder: there is none, or it has another version.
    :raises Exception: it is damaged.
    """
    manifest = _read_manifest(folder)
    if manifest.get("version") != VERSION:
        raise UnsuitableFolder(f"{folder} holds no replay buffer that this version can read; check the path.")
    names = [each["file"] for each in manifest["files"]] + [manifest["priorities"] or "none"]
    if any(Path(name).name != name for name in names):
        raise ValueError("a file lies outside of it")
    return manifest
