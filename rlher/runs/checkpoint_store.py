"""Checkpoints on disk: folders that are whole or not there, each with a checksum of every file.

``<run>/checkpoints/000012000/`` holds what a run that was killed goes on from. It is written beside and renamed into
place. What did not change since the last one (most of the replay buffer, the best model) is a hard link, so each folder
is complete by itself, costs only what is new, and can be copied or deleted as it is.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlher.core.files import links_outside, sync, write_json

KEPT = 2
MANIFEST = "checkpoint.json"
VERSION = 1


class Damaged(Exception):
    """A checkpoint is not what its checksums say."""


def write(parent: Path, timesteps: int, fill: Callable[[Path, Path | None], None]) -> Path:
    """Write a checkpoint, and delete all but the newest two.

    :param parent: the run's folder of checkpoints.
    :param timesteps: environment steps done, by which it is named.
    :param fill: writes its files into the first folder; the second is the checkpoint before, if there is one.
    :return: its folder.
    :raises OSError: it cannot be written; those before are as they were.
    """
    before = newest_first(parent)
    for unfinished in parent.glob(".*.new"):  # of a run that was killed while it wrote
        shutil.rmtree(unfinished, ignore_errors=True)
    path = parent / f"{timesteps:09d}"
    beside = parent / f".{path.name}.new"
    try:
        beside.mkdir(parents=True)
        fill(beside, before[0] if before else None)
        known = _sums(before[0]) if before else {}
        files = {str(file.relative_to(beside)): file for file in _files(beside)}
        sums = {name: _sum(file, before[0] / name if before else None, known.get(name)) for name, file in files.items()}
        write_json(beside / MANIFEST, {"version": VERSION, "timesteps": timesteps, "sha256": sums})
        for each in (*beside.rglob("*"), beside):
            if each.is_dir() or each.stat().st_nlink == 1:  # what has links was synced when it was written
                sync(each)
        if path.exists():
            shutil.rmtree(path)
        beside.rename(path)
        sync(parent)
        sync(parent.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    for old in newest_first(parent)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def newest_first(parent: Path) -> list[Path]:
    """List the checkpoints of a run."""
    if not parent.is_dir():
        return []
    found = (each for each in parent.iterdir() if each.is_dir() and each.name.isascii() and each.name.isdigit())
    return sorted(found, key=timesteps_of, reverse=True)


def timesteps_of(folder: Path) -> int:
    """Return the environment steps that had been done."""
    return int(folder.name)


def verify(folder: Path) -> None:
    """Hold every file of a checkpoint against its checksum.

    :raises Damaged: one is missing, another, or no plain file, or the manifest cannot be read.
    :raises OSError: it cannot be told, because the disk does not answer, or does not let us read.
    """
    try:
        for path in folder.rglob("*"):  # what is not in the manifest is not read, but may be written through
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise Damaged(f"{path} is a link or no file.")
        sums = _sums(folder)
        for name, digest in sums.items():
            if links_outside(folder / name, folder):
                raise Damaged(f"{folder} names a file outside itself.")
            if _digest(folder / name) != digest:
                raise Damaged(f"{folder / name} is not what it was when it was written.")
    except (FileNotFoundError, ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        raise Damaged(f"{folder} is damaged: {error}.") from error
    if not sums:
        raise Damaged(f"{folder} is empty.")


def link(source: Path, target: Path) -> None:
    """Make ``target`` the same file as ``source``, or a copy where the file system knows no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def link_folder(source: Path, target: Path) -> None:
    """Make a folder of links to the files of another, where there is one."""
    target.mkdir()
    for file in source.iterdir() if source.is_dir() else ():
        link(file, target / file.name)


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*")) if file.is_file())


def _sums(folder: Path) -> dict[str, str]:
    found: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return dict(found["sha256"])


def _sum(file: Path, before: Path | None, known: str | None) -> str:
    """Return a file's checksum, without reading it where it is the file that had that name before."""
    if known is not None and before is not None and before.exists() and before.samefile(file):
        return known
    return _digest(file)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
