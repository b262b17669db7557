"""The storage on disk: plain arrays without pickle, of which a save writes only what is new.

A folder holds ``buffer.json`` and numbered parts, one per save. A part holds, for each environment, the rows
of the transitions added since the part before, cut into pieces of one episode each. Loading plays the parts
back into an empty storage, so its capacity may be another than it was. Priorities, which change all the time,
are written whole. Files are written beside and renamed into place, the manifest last: a save that is cut off
leaves the one before it whole.
"""

import contextlib
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.storage import Storage

VERSION = 1
MANIFEST = "buffer.json"


def save(
    storage: Storage,
    folder: str | os.PathLike,
    extra: dict[str, Any] | None = None,
    priorities: dict[str, NDArray] | None = None,
) -> int:
    """Bring a folder up to date with the storage.

    :param storage: what to save; infos are not (they may be anything).
    :param folder: made where it does not exist; parts of another buffer in it are replaced.
    :param extra: JSON values to keep with it.
    :param priorities: arrays to keep with it, written anew by every save.
    :return: bytes written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = _read(folder)
    if manifest is None or manifest["mark"] != storage.mark or len(manifest["envs"]) != storage.n_envs:
        manifest = {"saves": 0, "parts": [], "envs": [{"total": 0}] * storage.n_envs}
    since = [env["total"] for env in manifest["envs"]]
    spans = [ring.fresh(start) for ring, start in zip(storage.rings, since, strict=True)]
    saves, parts, written = manifest["saves"] + 1, manifest["parts"], 0
    name = f"{storage.mark[:8]}-{saves:06d}.npz"
    if any(stop > start for start, stop in spans):
        written = _write(folder / f"part-{name}", _part(storage, spans, since))
        parts = [*parts, {"file": f"part-{name}", "stops": [stop for _, stop in spans]}]
    if priorities:
        written += _write(folder / f"priorities-{name}", priorities)
    oldest = [ring.total - ring.count for ring in storage.rings]
    parts = [part for part in parts if any(s > o for s, o in zip(part["stops"], oldest, strict=True))]
    manifest = {
        "version": VERSION,
        "mark": storage.mark,
        "saves": saves,
        "parts": parts,
        "priorities": f"priorities-{name}" if priorities else None,
        "envs": [{"total": ring.total, "count": ring.count, "running": ring.running} for ring in storage.rings],
        "extra": extra or {},
    }
    text = json.dumps(manifest, indent=1)
    _replace(folder / MANIFEST, lambda path: path.write_text(text))
    _sweep(folder, {part["file"] for part in parts} | {manifest["priorities"]})
    return written + len(text)


def load(storage: Storage, folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Fill an empty storage from a folder, and go on where it was: a later save there writes only what is
    new.

    :return: the ``extra`` and the ``priorities`` it was saved with.
    :raises ValueError: the folder holds no buffer, or one of other shapes or number of environments.
    :raises Exception: a file is damaged; see :func:`told`.
    """
    folder = Path(folder)
    manifest = _read(folder)
    if manifest is None or manifest.get("version") != VERSION:
        raise ValueError(f"{folder} holds no replay buffer that this version can read.")
    if len(manifest["envs"]) != storage.n_envs:
        found = len(manifest["envs"])
        raise ValueError(f"{folder} holds a replay buffer of {found} environments, not {storage.n_envs}.")
    storage.mark = manifest["mark"]
    for part in manifest["parts"]:
        with _arrays(folder / part["file"]) as arrays:
            for env, was in enumerate(manifest["envs"]):
                _play_back(storage, env, arrays, was["total"] - was["count"])
    for ring, was in zip(storage.rings, manifest["envs"], strict=True):
        if was["count"] and ring.total != was["total"]:
            raise ValueError(f"{folder} is damaged: it holds other transitions than it says.")
        ring.total = max(ring.total, was["total"])
        if not was["running"]:
            ring.end_episode()
    if manifest["priorities"] is None:
        return manifest["extra"], {}
    with _arrays(folder / manifest["priorities"]) as arrays:
        return manifest["extra"], dict(arrays)


@contextlib.contextmanager
def _arrays(path: Path) -> Iterator[Any]:
    """Open an archive of arrays as NumPy's ``savez`` writes them: as they are, so that none is larger than its file."""
    with zipfile.ZipFile(path) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError(f"{path} is damaged: it is compressed.")
    with np.load(path, allow_pickle=False) as arrays:
        yield arrays


@contextlib.contextmanager
def told(folder: str | os.PathLike) -> Iterator[None]:
    """Let whatever reading a damaged folder raises be a ``ValueError`` that says so."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:  # of JSON, NumPy, zip and our own arithmetic on what they return
        raise ValueError(f"{folder} is damaged: {type(error).__name__}: {error}") from error


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / MANIFEST
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _replace(path: Path, write: Any) -> None:
    beside = path.with_name(path.stem + ".new" + path.suffix)
    write(beside)
    os.replace(beside, path)


def _write(path: Path, arrays: dict[str, NDArray]) -> int:
    _replace(path, lambda beside: np.savez(beside, **arrays))  # type: ignore[arg-type]
    return path.stat().st_size


def _sweep(folder: Path, keep: set[str | None]) -> None:
    """Delete the arrays that the manifest no longer names."""
    for file in [*folder.glob("part-*.npz"), *folder.glob("priorities-*.npz")]:
        if file.name not in keep:
            file.unlink()


def _part(storage: Storage, spans: list[tuple[int, int]], since: list[int]) -> dict[str, NDArray]:
    """Return the transitions of those spans, and of what else it takes to play them back."""
    arrays: dict[str, NDArray] = {}
    for env, (ring, (start, stop)) in enumerate(zip(storage.rings, spans, strict=True)):
        rows = storage.rows_of(ring.numbered(start, stop))
        episodes = storage.rows["_episode"][rows]
        begins = np.flatnonzero(np.diff(episodes, prepend=-1))
        steps = np.diff(begins, append=len(rows))
        goes_on = np.zeros(len(begins), dtype=np.int64)
        if len(begins) and start == since[env]:
            goes_on[0] = rows[0] > storage.first[episodes[0]]
        after = np.cumsum(steps) - 1  # each piece's last transition, whose row its final one follows
        whole = np.insert(rows, after + 1, rows[after] + 1)
        owner = np.insert(episodes, after + 1, episodes[after])
        arrays |= {
            f"rows{env}": storage.rows.take(whole),
            f"achieved{env}": storage.achieved.take(whole, axis=0),
            f"goals{env}": storage.goals(whole, owner),
            f"pieces{env}": np.stack([steps, goes_on], axis=1),
            f"start{env}": np.array(start),
        }
    return arrays


def _play_back(storage: Storage, env: int, arrays: Any, oldest: int) -> None:
    """Store what a part holds of an environment's transitions, but for those evicted by the time of the last save."""
    rows, achieved, goals, pieces = (arrays[f"{name}{env}"] for name in ("rows", "achieved", "goals", "pieces"))
    if rows.dtype != storage.rows.dtype or achieved.shape[1:] != storage.achieved.shape[1:]:
        raise ValueError("The replay buffer was saved with other observation or action spaces.")
    whole = len(rows) == len(achieved) == len(goals) == pieces[:, 0].sum() + len(pieces)
    if not whole or (pieces[:, 0] < 1).any():
        raise ValueError("The replay buffer is damaged: its parts do not fit together.")
    at, number, ring = 0, int(arrays[f"start{env}"]), storage.rings[env]
    for steps, goes_on in pieces.tolist():
        gone = max(0, oldest - number)
        if gone < steps:
            # Transitions keep their numbers, by which a later save knows what is new.
            ring.total = max(ring.total, number + gone)
            piece = slice(at + gone, at + steps + 1)
            storage.extend(env, rows[piece], achieved[piece], goals[piece], bool(goes_on) and not gone)
        at, number = at + steps + 1, number + steps
