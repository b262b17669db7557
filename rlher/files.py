"""Files a person may lose sleep over are written beside and renamed into place, so a reader never meets half of one."""

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlher.errors import cause


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; rename it to ``path`` once the block ends without an error."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp lets only the owner read; a result is for everyone
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def spared(name: str) -> Iterator[None]:
    """Go on where a file cannot be written that will be written anew later on, and say so.

    :param name: what to call it.
    """
    try:
        yield
    except OSError as error:
        print(f"rlher: {name} cannot be written ({cause(error)}); the run goes on without.", file=sys.stderr)


def write_text(path: Path, text: str) -> None:
    """Replace the file at ``path`` by ``text``."""
    with replacing(path) as temporary:
        temporary.write_text(text)


def write_json(path: Path, value: Any) -> None:
    """Replace the file at ``path`` by ``value`` as JSON."""
    write_text(path, json.dumps(value, indent=2) + "\n")
