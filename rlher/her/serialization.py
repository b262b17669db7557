"""The storage on disk: plain arrays without pickle, of which a save writes only what is new.

A folder holds ``buffer.json`` and numbered parts, one per save. A part holds, for each environment, the rows of the
transitions added since the part before, and where in the storage they lie: what is loaded lies as what was saved,
so the same draws and the same evictions follow, bit for bit. A storage of another capacity is filled from one of the
saved capacity. Priorities, which change all the time, are written whole. Files are written beside and renamed into
place, the manifest last: a save that is cut off leaves the one before it whole.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.core.arrays import stored_arrays
from rlher.her.ring import Ring
from rlher.her.storage import Storage

VERSION = 2
MANIFEST = "buffer.json"


class Unfit(ValueError):
    """A folder holds no buffer, or one that cannot be loaded here: its message is a sentence."""


def save(
    storage: Storage,
    folder: str | os.PathLike,
    settled: Sequence[int] | None = None,
    extra: dict[str, Any] | None = None,
    priorities: dict[str, NDArray] | None = None,
) -> int:
    """Bring a folder up to date with the storage.

    :param storage: what to save; infos are not (they may be anything).
    :param folder: made where it does not exist; parts of another buffer in it are replaced.
    :param settled: per environment, how many transitions, of all ever added, hold their final numbers; None: all.
    :param extra: JSON values to keep with it.
    :param priorities: arrays to keep with it, written anew by every save.
    :return: bytes written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = _read(folder)
    if manifest is None or manifest["mark"] != storage.mark or len(manifest["final"]) != storage.n_envs:
        manifest = {"saves": 0, "parts": [], "final": [0] * storage.n_envs}
    rings = storage.rings
    spans = [ring.fresh(start) for ring, start in zip(rings, manifest["final"], strict=True)]
    saves, parts, written = manifest["saves"] + 1, manifest["parts"], 0
    name = f"{storage.mark[:8]}-{saves:06d}.npz"
    if any(stop > start for start, stop in spans):
        written = _write(folder / f"part-{name}", _part(storage, spans))
        parts = [*parts, {"file": f"part-{name}", "stops": [stop for _, stop in spans]}]
    if priorities:
        written += _write(folder / f"priorities-{name}", priorities)
    oldest = [ring.total - ring.count for ring in rings]
    parts = [part for part in parts if any(s > o for s, o in zip(part["stops"], oldest, strict=True))]
    # A running episode may yet be moved to the front: its rows are written again by the next save.
    final = [ring.total - storage.running_steps(ring) for ring in rings]
    manifest = {
        "version": VERSION,
        "mark": storage.mark,
        "saves": saves,
        "parts": parts,
        "priorities": f"priorities-{name}" if priorities else None,
        "final": final if settled is None else [min(pair) for pair in zip(final, settled, strict=True)],
        "capacity": storage.capacity,
        "spare": storage.spare,
        "goal_per_row": storage.row_goal is not None,
        "rings": [vars(ring) for ring in rings],
        "extra": extra or {},
    }
    text = json.dumps(manifest, indent=1)
    _replace(folder / MANIFEST, lambda path: path.write_text(text))
    _sweep(folder, {part["file"] for part in parts} | {manifest["priorities"]})
    return written + len(text)


def load(storage: Storage, folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Fill an empty storage from a folder, and go on where it was: a later save there writes only what is new.

    :return: the ``extra`` and the ``priorities`` it was saved with.
    :raises ValueError: the folder holds no buffer, or one of other shapes or number of environments.
    :raises Exception: a file is damaged; see :func:`told`.
    """
    folder = Path(folder)
    manifest = _read(folder)
    if manifest is None or manifest.get("version") != VERSION:
        raise Unfit(f"{folder} holds no replay buffer that this version can read.")
    if len(manifest["rings"]) != storage.n_envs:
        found = len(manifest["rings"])
        raise Unfit(f"The replay buffer in {folder} is one of {found} environments, not {storage.n_envs}.")
    _require_continuable(manifest)
    alike = (storage.capacity, storage.spare) == (manifest["capacity"], manifest["spare"])
    saved = storage if alike else storage.empty(manifest["capacity"], manifest["spare"])
    if manifest["goal_per_row"]:
        saved.row_goal = saved.layout.goals(len(saved.rows))
    for part in manifest["parts"]:
        with stored_arrays(folder / part["file"]) as arrays:
            for env in range(saved.n_envs):
                _place(saved, env, arrays)
    stops = manifest["parts"][-1]["stops"] if manifest["parts"] else [was["total"] for was in manifest["rings"]]
    for ring, was, stop in zip(saved.rings, manifest["rings"], stops, strict=True):
        _require_sense(ring, was, stop)
        vars(ring).update(was)
    saved.resume()
    if alike:
        storage.mark = manifest["mark"]
    else:
        _copy(saved, storage)
    if manifest["priorities"] is None:
        return manifest["extra"], {}
    with stored_arrays(folder / manifest["priorities"]) as arrays:
        return manifest["extra"], dict(arrays)


@contextlib.contextmanager
def told(folder: str | os.PathLike) -> Iterator[None]:
    """Let whatever reading a damaged folder raises be a ``ValueError`` that says so."""
    try:
        yield
    except Unfit:
        raise
    except Exception as error:  # of JSON, NumPy, zip and our own arithmetic on what they return
        raise ValueError(f"{folder} is damaged: {type(error).__name__}: {error}") from error


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{folder / MANIFEST} is damaged: {error}") from error
    return found if isinstance(found, dict) else {}


def _replace(path: Path, write: Any) -> None:
    beside = path.with_name(path.stem + ".new" + path.suffix)
    beside.unlink(missing_ok=True)  # it may be a link
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


def _part(storage: Storage, spans: list[tuple[int, int]]) -> dict[str, NDArray]:
    """Return the transitions of those spans, cut into pieces of one episode each, and where they lie."""
    arrays: dict[str, NDArray] = {}
    for env, (ring, (start, stop)) in enumerate(zip(storage.rings, spans, strict=True)):
        rows = storage.rows_of(ring.numbered(start, stop))
        episodes = storage.rows["_episode"][rows]
        begins = np.flatnonzero(np.diff(episodes, prepend=-1))
        steps, owners = np.diff(begins, append=len(rows)), episodes[begins]
        pieces = np.stack([steps, rows[begins], owners, storage.first[owners], storage.last[owners]], axis=1)
        whole = _rows(pieces)
        arrays |= {
            f"rows{env}": storage.rows.take(whole),
            f"achieved{env}": storage.achieved.take(whole, axis=0),
            f"goals{env}": storage.goals(whole, np.repeat(owners, steps + 1)),
            f"pieces{env}": pieces.astype(np.int64),
            f"start{env}": np.array(start),
        }
    return arrays


def _rows(pieces: NDArray) -> NDArray[np.int64]:
    """Return the rows of pieces [steps, first row, ...], each with the row of its final observation."""
    lengths = pieces[:, 0] + 1
    begins = np.cumsum(lengths) - lengths
    return np.repeat(pieces[:, 1] - begins, lengths) + np.arange(lengths.sum())


def _place(storage: Storage, env: int, arrays: Any) -> None:
    """Put what a part holds of an environment's transitions where it was."""
    rows, achieved, goals, pieces = (arrays[f"{name}{env}"] for name in ("rows", "achieved", "goals", "pieces"))
    if rows.dtype != storage.rows.dtype or achieved.shape[1:] != storage.achieved.shape[1:]:
        raise Unfit("The replay buffer was saved with other observation or action spaces.")
    if not len(pieces):
        return
    ring = storage.rings[env]
    steps, _, owners, first, last = pieces.T
    where = _rows(pieces)
    inside = [_within(numbers, ring.base_row, ring.n_rows) for numbers in (where, first, last)]
    inside.append(_within(owners, ring.base_episode, ring.n_episodes))
    if not all(inside) or (steps < 1).any() or {len(rows), len(achieved), len(goals)} != {len(where)}:
        raise ValueError("its pieces do not add up")
    storage.rows[where], storage.achieved[where] = rows, achieved
    if storage.row_goal is not None:
        storage.row_goal[where] = goals
    ends = np.cumsum(steps + 1)
    storage.episode_goal[owners] = goals[ends - steps - 1]
    storage.first[owners], storage.last[owners] = first, last
    start = int(arrays[f"start{env}"])
    storage.slot_row[ring.numbered(start, start + int(steps.sum()))] = np.delete(where, ends - 1)


def _within(numbers: NDArray, start: int, count: int) -> bool:
    return bool(numbers.min() >= start and numbers.max() < start + count)


def _require_continuable(manifest: dict[str, Any]) -> None:
    """Refuse a manifest that the next save could not go on from."""
    within = [
        isinstance(number, int) and 0 <= number <= was["total"]
        for number, was in zip(manifest["final"], manifest["rings"], strict=True)
    ]
    names = [*(part["file"] for part in manifest["parts"]), *filter(None, [manifest["priorities"]])]
    bare = all(Path(name).name == name for name in names)
    marked = re.fullmatch(r"[0-9a-f]+", manifest["mark"])
    if not (all(within) and isinstance(manifest["saves"], int) and bare and marked):
        raise ValueError("its bookkeeping does not add up")


def _require_sense(ring: Ring, was: dict[str, Any], stop: int) -> None:
    """Refuse bookkeeping that no ring of this size can have."""
    own = vars(ring)
    kinds = was.keys() == own.keys() and all(type(was[name]) is type(own[name]) for name in own)
    if not (
        kinds
        and all(was[name] == own[name] for name in ("capacity", "n_rows", "n_episodes", "base_row", "base_slot"))
        and was["total"] == stop
        and 0 <= was["count"] <= min(stop, ring.capacity)
        and 0 <= was["dropped"] <= was["begun"]
        and -1 <= was["row"] - ring.base_row < ring.n_rows
        and 0 <= was["lap"] <= ring.n_rows
    ):
        raise ValueError("its bookkeeping does not add up")


def _copy(source: Storage, target: Storage) -> None:
    """Store the episodes of one storage in another, the oldest first; transitions keep their numbers."""
    for env, ring in enumerate(source.rings):
        target.rings[env].total = ring.total - ring.count
        for episode in _episodes(ring):
            rows = slice(int(source.first[episode]), int(source.last[episode]) + 1)
            at = np.arange(rows.start, rows.stop)
            goals = source.goals(at, np.full(len(at), episode))
            target.extend(env, source.rows[rows], source.achieved[rows], goals)
        if not ring.running:
            target.rings[env].end_episode()


def _episodes(ring: Ring) -> list[int]:
    """List the episodes held, the oldest first."""
    return [ring.base_episode + number % ring.n_episodes for number in range(ring.dropped, ring.begun)]
