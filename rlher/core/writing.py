"""Atomic writes: a reader never sees a partial file, and a power failure leaves the old file or the new one."""

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlher.core.errors import UserError, os_error_reason

UNFINISHED = ".rlher-"
"""Start of the names of the temporary files of :func:`atomic_write`."""


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; rename it to ``path`` if the block ends without an error."""
    temporary = path.with_name(f"{UNFINISHED}{secrets.token_hex(8)}{path.suffix}")
    temporary.touch(exist_ok=False)
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Delete the temporary files under a folder that a process left when it was killed in :func:`atomic_write`.

    No process may be writing in the folder.
    """
    for path in folder.rglob(f"{UNFINISHED}*"):
        if not path.is_dir():
            path.unlink(missing_ok=True)


def display_path(path: Path) -> Path:
    """Return a path relative to the current folder if it lies there, unless the result would look like a flag."""
    with contextlib.suppress(ValueError, OSError):
        short = path.relative_to(Path.cwd())
        if not str(short).startswith("-"):
            return short
    return path


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """Create the folder of a file that the user named, and yield a temporary path as :func:`atomic_write` does.

    :raises UserError: the file cannot be written.
    """
    with as_write_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            yield temporary


@contextlib.contextmanager
def as_write_error(path: Path) -> Iterator[None]:
    """Raise UserError if the block cannot write a file or folder."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {os_error_reason(error)}; check its folder and the disk.") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file at ``path`` by ``content``."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Replace the file at ``path`` by ``text``."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace the file at ``path`` by ``value`` as JSON."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot sync folders
            raise
    finally:
        os.close(handle)
