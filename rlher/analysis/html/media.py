"""Pictures and clips as data URIs, so that the report is a single file; files that are too large are left out."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rlher.core.safe_read import links_outside

MAX_FILE_BYTES = 8_000_000
"""Size limit of one clip or picture."""
MAX_TOTAL_BYTES = 40_000_000
"""Size limit of all clips together, so that the page can be sent by e-mail and opened on a phone."""
CLIP_PATTERNS = ("enjoy.mp4", "enjoy.gif", "clips/*.mp4", "clips/*.gif")
"""Clips of a run folder."""
TYPES = {".mp4": ("video/mp4", 4, b"ftyp"), ".gif": ("image/gif", 0, b"GIF8"), ".png": ("image/png", 0, b"\x89PNG")}
"""MIME type by suffix, with the bytes that such a file has at an offset."""


@dataclass(frozen=True)
class EmbeddedFile:
    """A file inside the page.

    :param uri: its content, ``data:video/mp4;base64,...``.
    """

    path: Path
    size: int
    uri: str

    @property
    def is_video(self) -> bool:
        """Whether it needs a player."""
        return self.uri.startswith("data:video/")


def embed(path: Path, bytes_left: int) -> EmbeddedFile:
    """Return a picture or clip as a data URI.

    :param bytes_left: bytes that the page can still take.
    :raises ValueError: it is too large, cannot be read, or has another type than its suffix.
    """
    mime_type, offset, magic = TYPES[path.suffix.lower()]
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ValueError(f"left out {path}: larger than {MAX_FILE_BYTES / 1e6:.0f} MB")
        if size > bytes_left:
            raise ValueError(f"left out {path}: clips on a page are limited to {MAX_TOTAL_BYTES / 1e6:.0f} MB")
        content = path.read_bytes() if path.is_file() else b""
    except OSError as error:
        raise ValueError(f"left out {path}: {error.strerror}") from error
    if content[offset : offset + len(magic)] != magic:
        raise ValueError(f"left out {path}: damaged or not finished")
    return EmbeddedFile(path, len(content), f"data:{mime_type};base64,{base64.b64encode(content).decode()}")


def embed_all(paths: Iterable[Path]) -> tuple[list[EmbeddedFile], list[str]]:
    """Embed pictures or clips up to :data:`MAX_TOTAL_BYTES`.

    :return: the embedded files, and a message for each file left out.
    """
    found: list[EmbeddedFile] = []
    notes: list[str] = []
    for path in paths:
        try:
            found.append(embed(path, MAX_TOTAL_BYTES - sum(file.size for file in found)))
        except ValueError as error:
            notes.append(str(error))
    return found, notes


def clips(folder: Path) -> list[Path]:
    """Return the clips of a run folder, without links that lead out of it."""
    return [
        path for pattern in CLIP_PATTERNS for path in sorted(folder.glob(pattern)) if not links_outside(path, folder)
    ]
