"""Clips and pictures inside the HTML report."""

import base64
import mimetypes
from collections.abc import Iterable
from pathlib import Path

from rlher.core.console import warn
from rlher.core.errors import first_line
from rlher.core.reading import require_regular_file

MAX_FILE_BYTES = 8_000_000
"""Size limit of one clip or picture."""
MAX_TOTAL_BYTES = 40_000_000
"""Size limit of all clips together, so that the page can be sent by e-mail and opened on a phone."""
CLIP_PATTERNS = ("enjoy.mp4", "enjoy.gif", "clips/*.mp4", "clips/*.gif")
"""Clips of a run folder."""


def embed(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the content of pictures or clips, up to :data:`MAX_TOTAL_BYTES`, as ``data:video/mp4;base64,...``."""
    embedded = {}
    bytes_left = MAX_TOTAL_BYTES
    for path in paths:
        try:
            require_regular_file(path, min(bytes_left, MAX_FILE_BYTES))
            content = path.read_bytes()
        except (OSError, ValueError) as error:
            warn(f"left out {path}: {first_line(error)}")
            continue
        bytes_left -= len(content)
        kind, _ = mimetypes.guess_type(path.name)
        embedded[path] = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    return embedded


def clips_of(folder: Path) -> list[Path]:
    """Return the clips of a run folder."""
    return [path for pattern in CLIP_PATTERNS for path in sorted(folder.glob(pattern))]
