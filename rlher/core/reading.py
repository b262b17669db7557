"""Read files that may come from someone else, with size limits and without executing code.

Each kind of file has its function: :func:`read_text_or_empty`, :func:`read_json_or_empty`, :func:`read_yaml`,
:func:`read_table`, :func:`open_zip`, :func:`read_tensors`, :func:`open_arrays`. Call :func:`require_safe_to_write`
before appending to a file.
"""

import io
import json
import math
import re
import stat
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from rlher.core.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

MAX_TEXT_BYTES = 1_000_000
"""Size limit of a text or JSON file; the files of a run have some thousand bytes."""

MAX_TABLE_BYTES, MAX_COLUMNS = 100_000_000, 500

YAML_SUFFIXES = (".yaml", ".yml")

MAX_YAML_BYTES = 100_000
"""Size limit of a YAML file. PyYAML takes seconds for a file of this size, and minutes for one ten times as large."""

MAX_INT_CHARACTERS = 250
"""Size limit of an integer in a YAML file; a float holds integers of up to 308 digits."""

MAX_COMPRESSION = 100
"""Limit of a zip file's content relative to its size; larger files are treated as zip bombs."""


def require_safe_to_write(path: Path) -> None:
    """Raise UserError if writing to a path would block, as a pipe does."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a regular file; move it away.")


def require_regular_file(path: Path, max_bytes: float = math.inf) -> None:
    """Raise ValueError if a path is not a regular file or is too large.

    :raises OSError: there is no such file.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    if status.st_size > max_bytes:
        raise ValueError(f"its {status.st_size:,} bytes are more than {max_bytes:,}")


def read_text_or_empty(path: Path) -> str:
    """Return the text of a file, or ``""`` if the file is missing or unreadable.

    Bytes that are not UTF-8 are replaced.
    """
    try:
        require_regular_file(path, MAX_TEXT_BYTES)
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty one if the file is missing or holds no object."""
    try:
        value = json.loads(read_text_or_empty(path))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def finite_float(value: Any) -> float | None:
    """Return a finite number read from a file as float; None for any other value, booleans included."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    return float(value) if is_number else None


class _Loader(yaml.SafeLoader):
    """PyYAML's loader of plain values. It reads ``1e-4`` as a number, as Hydra does."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # a few lines of nested aliases can stand for billions of values
            raise ValueError(f"it has an alias; write the value, or read RL Zoo's file with --conf-file {self.name}")
        node: Any = super().compose_node(parent, index)
        if node.tag.endswith(":int") and len(node.value) > MAX_INT_CHARACTERS:
            raise ValueError("it holds an integer with hundreds of digits")
        return node


class _Dumper(yaml.SafeDumper):
    """PyYAML's writer of plain values. It quotes texts that :class:`_Loader` would read as numbers."""

    def ignore_aliases(self, data: Any) -> bool:
        return True  # a value that occurs twice is written twice, for the loader refuses aliases


_EXPONENT_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$", re.ASCII)
for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT_NUMBER, list("-+0123456789"))


def dump_yaml(values: Any) -> str:
    """Return plain values as YAML, in the order of their keys, for :func:`read_yaml`.

    :raises UserError: the text is too large for :func:`read_yaml`.
    """
    text: str = yaml.dump(values, Dumper=_Dumper, sort_keys=False)
    if len(text) > MAX_YAML_BYTES - 1000:  # leaves room for comments and a signature
        raise UserError(f"the config has {len(text):,} bytes as YAML, more than rlher reads; shorten its values.")
    return text


def read_yaml(path: Path, has_aliases: bool = False) -> dict[str, Any]:
    """Return the mapping of plain values in a YAML file.

    :param has_aliases: whether the file may have aliases, as RL Zoo's files do.
    :raises OSError: the file cannot be read.
    :raises ValueError: the file is not valid YAML, holds no mapping or exceeds a limit. The message is one line.
    """
    require_regular_file(path, MAX_YAML_BYTES)
    try:
        with path.open(encoding="utf-8") as file:
            content = yaml.load(file, Loader=yaml.SafeLoader if has_aliases else _Loader)
    except OSError:
        raise
    except Exception as error:  # a damaged file raises many kinds
        raise ValueError(" ".join(str(error).split())) from error
    if not isinstance(content, dict):
        raise ValueError("it is not a mapping of keys to values")
    return content


def read_table(path: Path) -> "pd.DataFrame":
    """Return a CSV file with a header as a table.

    :raises OSError: it cannot be read.
    :raises ValueError: it is damaged or exceeds a limit; the message is one line.
    """
    import pandas as pd  # takes half a second, and few commands read tables

    require_regular_file(path, MAX_TABLE_BYTES)
    with path.open(encoding="utf-8-sig", newline="") as lines:
        if (columns := lines.readline().count(",") + 1) > MAX_COLUMNS:
            raise ValueError(f"it has {columns:,} columns, more than {MAX_COLUMNS}")
        lines.seek(0)
        # Without usecols pandas takes the first cells of a longer row as its index.
        return pd.read_csv(lines, usecols=range(columns))


def open_zip(file: Path | io.BytesIO) -> zipfile.ZipFile:
    """Open a zip file whose content is not much larger than the file.

    :raises OSError: it cannot be read.
    :raises ValueError: it is not a regular file.
    :raises zipfile.BadZipFile: it is not a zip file, or is compressed more than :data:`MAX_COMPRESSION` times.
    """
    if isinstance(file, Path):
        require_regular_file(file)
    archive = zipfile.ZipFile(file)
    if archive.infolist() and min(member.header_offset for member in archive.infolist()) > 0:
        archive.close()  # torch would read the bytes before the zip file
        raise zipfile.BadZipFile("something is before its content")
    size = file.stat().st_size if isinstance(file, Path) else file.getbuffer().nbytes
    if sum(member.file_size for member in archive.infolist()) > MAX_COMPRESSION * size:
        archive.close()
        raise zipfile.BadZipFile(f"its content is more than {MAX_COMPRESSION} times its size")
    return archive


def read_tensors(content: bytes, device: Any) -> dict[str, Any]:
    """Return the tensors of a file written by ``torch.save``, without unpickling anything else.

    :param device: torch device of the tensors.
    :raises zipfile.BadZipFile: as :func:`open_zip`.
    :raises pickle.UnpicklingError: the file holds something other than tensors.
    """
    import torch as th  # takes seconds, and few commands read tensors

    open_zip(io.BytesIO(content)).close()
    tensors: dict[str, Any] = th.load(io.BytesIO(content), map_location=device, weights_only=True)
    return tensors


def open_arrays(path: Path) -> Any:
    """Open an archive of arrays that ``numpy.savez`` wrote, without unpickling. Close the archive, or use ``with``.

    :raises zipfile.BadZipFile: as :func:`open_zip`.
    """
    open_zip(path).close()
    return np.load(path, allow_pickle=False)
