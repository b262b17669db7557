"""The storage on disk: plain arrays without pickle; a save writes only what is new.

A folder holds ``buffer.json`` and numbered parts, one per save. A part holds, for each environment, the rows of the
transitions added since the part before, and their positions in the storage: after a load, the same draws and the same
evictions follow, bit for bit. A storage of another capacity is filled from one of the saved capacity. Priorities, which
change all the time, are written whole; fixed episodes, which never change, once. Files are written under another name
and renamed, the manifest last: a save that is interrupted leaves the previous one intact.
"""

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.core.safe_read import stored_arrays
from rlher.her import saved_parts
from rlher.her.manifest import (
    VERSION,
    UnsuitableFolder,
    read_manifest,
    validate_manifest,
    validate_ring,
    write_manifest,
)
from rlher.her.storage import Storage
from rlher.her.trajectory import PackedEpisodes


def save(
    storage: Storage,
    folder: str | os.PathLike,
    computed: Sequence[int] | None = None,
    extra: dict[str, Any] | None = None,
    priorities: dict[str, NDArray] | None = None,
    fixed_final: bool = True,
) -> int:
    """Bring a folder up to date with the storage.

    :param storage: what to save, without infos, which may be any objects.
    :param folder: created if missing; parts of another buffer in it, or of another state, are replaced.
    :param computed: per environment, number of the oldest transitions that will not change any more; None: all.
    :param extra: JSON values to save with it.
    :param priorities: arrays to save with it, written whole each time.
    :param fixed_final: whether the fixed episodes will not change any more, and so are written once.
    :return: bytes written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = read_manifest(folder)
    if manifest is None or not _is_earlier_state(manifest, storage):
        manifest = {"saves": 0, "parts": [], "final": [0] * storage.n_envs, "fixed": None}
    mark = uuid.uuid4().hex
    name = f"{mark[:8]}-{manifest['saves'] + 1:06d}.npz"
    written = 0
    spans = [ring.held_since(start) for ring, start in zip(storage.rings, manifest["final"], strict=True)]
    if any(stop > start for start, stop in spans):
        written += _write(folder / f"part-{name}", saved_parts.pack(storage, spans))
        manifest["parts"].append({"file": f"part-{name}", "stops": [stop for _, stop in spans]})
    if priorities:
        written += _write(folder / f"priorities-{name}", priorities)
    fixed, episodes = manifest.get("fixed"), storage.fixed_episodes()
    if episodes is not None and not (fixed and fixed["final"]):
        written += _write(folder / f"fixed-{name}", saved_parts.pack_fixed(episodes))
        fixed = {"file": f"fixed-{name}", "final": fixed_final}
    manifest = _next_manifest(manifest, storage, computed) | {
        "mark": mark,
        "priorities": f"priorities-{name}" if priorities else None,
        "fixed": fixed,
        "extra": extra or {},
    }
    written += write_manifest(folder, manifest)
    storage.saves.append(mark)
    used = {part["file"] for part in manifest["parts"]} | {manifest["priorities"], fixed and fixed["file"]}
    _delete_unused(folder, used)
    return written


def _next_manifest(manifest: dict[str, Any], storage: Storage, computed: Sequence[int] | None) -> dict[str, Any]:
    """Return the description of a storage and of the parts that still hold some of its transitions."""
    rings = storage.rings
    oldest = [ring.total - ring.count for ring in rings]
    # A running episode may still be moved to the front: the next save writes its rows again.
    final = [ring.total - storage.running_steps(ring) for ring in rings]
    return {
        "version": VERSION,
        "saves": manifest["saves"] + 1,
        "parts": [part for part in manifest["parts"] if any(s > o for s, o in zip(part["stops"], oldest, strict=True))],
        "final": final if computed is None else [min(pair) for pair in zip(final, computed, strict=True)],
        "capacity": storage.capacity,
        "spare": storage.spare,
        "goal_per_row": storage.row_goal is not None,
        "rings": [vars(ring) for ring in rings],
    }


def load_fixed(storage: Storage, folder: str | os.PathLike) -> PackedEpisodes | None:
    """Return the fixed episodes of a folder, for a storage of the same spaces; None: it has none.

    :raises Exception: as :func:`load`.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    validate_manifest(manifest, storage, folder)
    assert manifest is not None
    if not manifest.get("fixed"):
        return None
    with stored_arrays(folder / manifest["fixed"]["file"]) as arrays:
        return saved_parts.unpack_fixed(storage, arrays)


def load(storage: Storage, folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Fill an empty storage from a folder; a later save there writes only what is new.

    :return: the ``extra`` and the ``priorities`` it was saved with.
    :raises UnsuitableFolder: the folder holds no buffer, or one of other spaces or another number of environments.
    :raises Exception: a file is damaged; see :func:`as_value_error`.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    validate_manifest(manifest, storage, folder)
    assert manifest is not None
    same_size = (storage.capacity, storage.spare) == (manifest["capacity"], manifest["spare"])
    saved = storage if same_size else storage.empty(manifest["capacity"], manifest["spare"])
    if manifest["goal_per_row"] and saved.row_goal is None:
        saved.allocate_row_goals()
    for part in manifest["parts"]:
        with stored_arrays(folder / part["file"]) as arrays:
            for env in range(saved.n_envs):
                saved_parts.unpack(saved, env, arrays)
    stops = manifest["parts"][-1]["stops"] if manifest["parts"] else [state["total"] for state in manifest["rings"]]
    for ring, state, stop in zip(saved.rings, manifest["rings"], stops, strict=True):
        validate_ring(ring, state, stop)
        vars(ring).update(state)
    saved.resume()
    if not same_size:
        _copy_episodes(saved, storage)
    elif manifest["version"] == VERSION:
        storage.saves.append(manifest["mark"])
    if manifest["priorities"] is None:
        return manifest["extra"], {}
    with stored_arrays(folder / manifest["priorities"]) as arrays:
        return manifest["extra"], dict(arrays)


@contextlib.contextmanager
def as_value_error(folder: str | os.PathLike) -> Iterator[None]:
    """Raise ValueError("<folder> is damaged…") for every exception that reading a damaged folder raises."""
    try:
        yield
    except UnsuitableFolder:
        raise
    except Exception as error:  # of JSON, NumPy, zip and our own arithmetic on what they return
        raise ValueError(f"{folder} is damaged: {type(error).__name__}: {error}") from error


def _is_earlier_state(manifest: dict[str, Any], storage: Storage) -> bool:
    """Return whether a folder holds an earlier state of this storage, and not of another one loaded from it."""
    return manifest.get("mark") in storage.saves and len(manifest["final"]) == storage.n_envs


def _write(path: Path, arrays: dict[str, NDArray]) -> int:
    new = path.with_name(path.stem + ".new" + path.suffix)
    new.unlink(missing_ok=True)  # it may be a link
    np.savez(new, **arrays)  # type: ignore[arg-type]
    os.replace(new, path)
    return path.stat().st_size


def _delete_unused(folder: Path, keep: set[str | None]) -> None:
    """Delete the arrays that the manifest does not name."""
    for file in folder.glob("*.npz"):
        if file.name.startswith(("part-", "priorities-", "fixed-")) and file.name not in keep:
            file.unlink()


def _copy_episodes(source: Storage, target: Storage) -> None:
    """Store the episodes of one storage in another, the oldest first; transitions keep their numbers."""
    for env, ring in enumerate(source.rings):
        target.rings[env].total = ring.total - ring.count
        for episode in ring.episodes(ring.dropped, ring.begun).tolist():
            rows = slice(int(source.first[episode]), int(source.last[episode]) + 1)
            at = np.arange(rows.start, rows.stop)
            goals = source.goals(at, np.full(len(at), episode))
            target.extend(env, source.rows[rows], source.achieved[rows], goals)
        if not ring.running:
            target.rings[env].end_episode()
