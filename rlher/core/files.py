"""Reading and writing files, which somebody else may have written, or meet half of.

What a person may lose sleep over is written beside, synced and renamed into place: a reader never meets half of it, and
a power failure leaves the old file or the new one, not an empty one.
"""

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rlher.core.console import warn
from rlher.core.errors import UserError, os_error_reason

MAX_TEXT_BYTES = 1_000_000
"""Of a text or a JSON. Those of a run have some thousand."""

MAX_YAML_BYTES = 100_000
"""Bytes of a YAML file: PyYAML can take seconds for them, and minutes for ten times as many."""

MAX_YAML_VALUES = 100_000
"""Values in a YAML file. A few lines of aliases of aliases stand for billions."""

MAX_YAML_DEPTH = 50
"""Of values in each other; some readers of the tree call themselves for each."""

MAX_INT_BITS = 1024
"""Of a whole number in one; what is larger no float can hold, and in the end not even be printed."""


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; rename it to ``path`` once the block ends without an error."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp lets only the owner read; a result is for everyone
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def warn_on_write_error(name: str) -> Iterator[None]:
    """Go on where a file cannot be written that will be written anew later on, and say so.

    :param name: what to call it.
    """
    try:
        yield
    except OSError as error:
        warn(f"{name} cannot be written ({os_error_reason(error)}); the run goes on without.")


def write_text(path: Path, text: str) -> None:
    """Replace the file at ``path`` by ``text``."""
    with atomic_write(path) as temporary:
        temporary.write_text(text)


def write_json(path: Path, value: Any) -> None:
    """Replace the file at ``path`` by ``value`` as JSON."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk and outlives a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # of file systems that sync no folders
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """Yield as :func:`atomic_write` does, for a file that somebody asked for by name: its folder is made.

    :raises UserError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            yield temporary
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}.") from error


def read_text(path: Path) -> str:
    """Return a file's text, ``""`` where there is none to read; bytes that are no UTF-8 are marked.

    Nor is one read that :func:`links_outside`, for what is read here is sent on.
    """
    try:
        require_regular_file(path, MAX_TEXT_BYTES)
        return "" if links_outside(path) else path.read_text(errors="replace")
    except (OSError, ValueError):
        return ""


def links_outside(path: Path, folder: Path | None = None) -> bool:
    """Tell whether a file is a link out of a folder: who sent the folder cannot have meant what lies here.

    :param folder: the file's own where none is given; it may be reached by links itself.
    """
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder or path.parent))


def require_regular_file(path: Path, most: int) -> None:
    """Refuse what would be read without end.

    :param most: bytes.
    :raises OSError: there is no such file.
    :raises ValueError: it is too large, or no plain file, and which, in a line.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no file, but a folder, a pipe or a device")
    if status.st_size > most:
        raise ValueError(f"its {status.st_size:,} bytes are more than {most:,}")


def read_json(path: Path) -> dict[str, Any]:
    """Return a file's JSON object, empty where there is none, or where it is being written."""
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_yaml(path: Path) -> Any:
    """Read a YAML file of plain values.

    :raises OSError: it cannot be read.
    :raises ValueError: it is no such file, and why, in a line.
    """
    require_regular_file(path, MAX_YAML_BYTES)
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, or a number of 5,000 digits
        raise ValueError(" ".join(str(error).split())) from error
    except (AttributeError, KeyError, TypeError) as error:  # PyYAML, of tags on values they do not fit
        raise ValueError(f"{type(error).__name__}: {error}") from error
    _require_small(tree)
    return tree


class _Loader(yaml.SafeLoader):
    """Counts what ``<<`` merges, which is spread out before anybody else could: nine lines can stand for billions."""

    merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)  # which comes back here for each mapping that is merged
        self.merged += len(node.value)
        if self.merged > MAX_YAML_VALUES:
            raise ValueError("it merges too many values")


def _require_small(tree: Any) -> None:
    rest, count = [(tree, 0)], 0
    while rest:
        node, depth = rest.pop()
        count += 1
        if count > MAX_YAML_VALUES or depth > MAX_YAML_DEPTH:
            raise ValueError("it holds too many values, too many in each other, or itself")
        if isinstance(node, int) and node.bit_length() > MAX_INT_BITS:
            raise ValueError("it holds a number with hundreds of digits")
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        rest += [(each, depth + 1) for each in inner]
