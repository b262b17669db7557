"""Pictures and clips as data URIs, so that a page needs no other file; what is too large is left out."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rlher.core.files import links_outside

CLIP_BYTES = 8_000_000
"""Of one clip or picture, beyond which it is left out."""
PAGE_BYTES = 40_000_000
"""Of all clips together: what can still be sent by mail, and opened on a telephone."""
CLIPS = ("enjoy.mp4", "enjoy.gif", "clips/*.mp4", "clips/*.gif")
"""In a run folder."""
TYPES = {".mp4": ("video/mp4", 4, b"ftyp"), ".gif": ("image/gif", 0, b"GIF8"), ".png": ("image/png", 0, b"\x89PNG")}
"""Ending → type, and the bytes a file of that type has at an offset."""


@dataclass(frozen=True)
class Embedded:
    """A file inside the page.

    :param path: where it was.
    :param size: its bytes.
    :param uri: its content, ``data:video/mp4;base64,...``.
    """

    path: Path
    size: int
    uri: str

    @property
    def is_video(self) -> bool:
        """Needs a player."""
        return self.uri.startswith("data:video/")


def embed(path: Path, room: int) -> Embedded:
    """Read a picture or clip.

    :param room: bytes that the page can still take.
    :raises ValueError: it is too large, unreadable, or not what its name says.
    """
    kind, offset, magic = TYPES[path.suffix.lower()]
    try:
        size = path.stat().st_size
        if size > CLIP_BYTES:
            raise ValueError(f"{path}: left out, its {size / 1e6:.0f} MB are more than {CLIP_BYTES / 1e6:.0f}")
        if size > room:
            raise ValueError(f"{path}: left out, the page has {(PAGE_BYTES - room) / 1e6:.0f} MB of clips already")
        content = path.read_bytes() if path.is_file() else b""
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    if content[offset : offset + len(magic)] != magic:
        raise ValueError(f"{path}: left out, it is damaged or not finished")
    return Embedded(path, len(content), f"data:{kind};base64,{base64.b64encode(content).decode()}")


def embed_all(paths: Iterable[Path]) -> tuple[list[Embedded], list[str]]:
    """Embed pictures or clips, as many as a page should carry.

    :return: them, and a sentence about each that was left out.
    """
    found: list[Embedded] = []
    notes: list[str] = []
    for path in paths:
        try:
            found.append(embed(path, PAGE_BYTES - sum(each.size for each in found)))
        except ValueError as error:
            notes.append(str(error))
    return found, notes


def clips(folder: Path) -> list[Path]:
    """List the clips of a run folder, not those of another that a link leads to."""
    return [path for pattern in CLIPS for path in sorted(folder.glob(pattern)) if not links_outside(path, folder)]
