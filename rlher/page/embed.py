"""Pictures and clips as data URIs, so that a page needs no other file; what is too large is left out."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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
    :param uri: its content, ``data:video/mp4;base64,...``.
    """

    path: Path
    uri: str

    @property
    def is_video(self) -> bool:
        """Needs a player."""
        return self.uri.startswith("data:video/")


def embed(path: Path) -> Embedded:
    """Read a picture or clip.

    :raises ValueError: it is too large, unreadable, or not what its name says.
    """
    kind, offset, magic = TYPES[path.suffix.lower()]
    try:
        size = path.stat().st_size
        if size > CLIP_BYTES:
            raise ValueError(f"{path}: left out, its {size / 1e6:.0f} MB are more than {CLIP_BYTES / 1e6:.0f}")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    if content[offset : offset + len(magic)] != magic:
        raise ValueError(f"{path}: left out, it is damaged or not finished")
    return Embedded(path, f"data:{kind};base64,{base64.b64encode(content).decode()}")


def clips(folders: Iterable[Path]) -> tuple[list[Embedded], list[str]]:
    """Embed the clips of some run folders, as many as a page should carry.

    :return: the clips, and a sentence about each that was left out.
    """
    found: list[Embedded] = []
    notes: list[str] = []
    room = PAGE_BYTES
    for path in (path for folder in folders for pattern in CLIPS for path in sorted(folder.glob(pattern))):
        if not path.is_file():
            continue
        if path.stat().st_size > room:
            notes.append(f"{path}: left out, the page has {PAGE_BYTES / 1e6:.0f} MB of clips already")
            continue
        try:
            found.append(embed(path))
            room -= path.stat().st_size
        except ValueError as error:
            notes.append(str(error))
    return found, notes
