"""Damage to a file's content, of a kind that fits the file."""

import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch as th

from tests.support.fuzzing.checks import MARKER
from tests.support.fuzzing.text_damage import change_cells, change_value, malicious_document, name_code

Damage = Callable[[Random, bytes], bytes]
"""Returns a damaged copy of a file's content."""


def _truncate(rng: Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _flip_bits(rng: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 3, 30))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _insert_noise(rng: Random, content: bytes) -> bytes:
    at, length = rng.randrange(len(content) + 1), rng.choice((1, 4, 100))
    return content[:at] + rng.randbytes(length) + content[at + rng.choice((0, length)) :]


def _garbage(rng: Random, content: bytes) -> bytes:
    return rng.choice((b"", b"\0" * 1000, rng.randbytes(300), content * 2, b"\xef\xbb\xbf" + content, b"PK\x03\x04"))


BYTE_DAMAGE: tuple[Damage, ...] = (_truncate, _flip_bits, _insert_noise, _garbage)


class WritesMarker:
    """Writes the file :data:`MARKER` when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {MARKER}",)


def damage_archive(rng: Random, content: bytes) -> bytes:
    """Change, swap, remove or rename a member of a zip archive, or of an archive in it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, other = rng.choice(sorted(members)), rng.choice(sorted(members))
    kind = rng.choice(("bytes", "remove", "swap", "pickle", "array", "tensors", "size", "bomb", "name", "nested"))
    if kind == "size":
        return _claim_gigabytes(content)
    if kind == "bytes":
        members[name] = rng.choice(BYTE_DAMAGE)(rng, members[name])
    elif kind == "remove":
        del members[name]
    elif kind == "swap":
        members[name], members[other] = members[other], members[name]
    elif kind == "pickle":
        members[name] = pickle.dumps(WritesMarker())
    elif kind == "array":
        members[name] = _odd_array(rng)
    elif kind == "tensors":
        members[name] = _odd_tensors(rng)
    elif kind == "bomb":
        members[name] = bytes(5 * 10**7)
    elif kind == "name":
        members[rng.choice((f"../../{MARKER}", f"/tmp/{MARKER}", " ", "a" * 3000, "policy.pth/x"))] = members.pop(name)
    elif members[name][:2] == b"PK":
        members[name] = damage_archive(rng, members[name])
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED if kind == "bomb" else zipfile.ZIP_STORED) as archive:
        for each, value in members.items():
            archive.writestr(each, value)
    return written.getvalue()


def _claim_gigabytes(content: bytes) -> bytes:
    """Return a zip archive whose directory gives a size of four gigabytes for its last member."""
    at = content.rfind(b"PK\x01\x02")
    return content[: at + 24] + struct.pack("<I", 0xFFFFFFF0) + content[at + 28 :]


def _odd_array(rng: Random) -> bytes:
    """Return a NumPy file with an array of objects, another type or shape, or a header of a huge array."""
    written = io.BytesIO()
    kind = rng.choice(("objects", "shape", "nan", "huge", "strings"))
    if kind == "huge":
        np.lib.format.write_array_header_1_0(
            written, {"descr": "<f8", "fortran_order": False, "shape": (rng.choice((10**12, 10**20, -1)),)}
        )
        return written.getvalue()
    values: dict[str, Any] = {
        "objects": np.array([WritesMarker()], dtype=object),
        "shape": np.zeros(rng.choice(((), (0,), (3, 5), (4,)))),
        "nan": np.full(4, np.nan),
        "strings": np.array(["a", "b"]),
    }
    np.lib.format.write_array(written, values[kind], allow_pickle=True)
    return written.getvalue()


def _odd_tensors(rng: Random) -> bytes:
    """Return a PyTorch file whose value is not the expected dictionary of tensors."""
    written = io.BytesIO()
    odd: Any = rng.choice(({}, [], 3, {"a": th.zeros(2)}, {"a": WritesMarker()}, th.zeros(3), {1: 2}, "text", None))
    th.save(odd, written)
    return written.getvalue()


ODD_FILES: tuple[Callable[[Path], object], ...] = (
    os.mkfifo,
    Path.mkdir,
    Path.touch,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/dev/stdin"),
    lambda path: (path.with_name("elsewhere").write_text("elsewhere\n"), path.symlink_to("elsewhere")),
    lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("."),
    lambda path: (path.touch(), os.truncate(path, 10**9)),
)
"""Functions that make something in place of a file that is not a file, a link, or a file without end."""


def damaged(rng: Random, suffix: str, content: bytes) -> bytes:
    """Return a damaged copy of a file's content.

    :param suffix: suffix of the file's name, which decides on the kinds of damage.
    """
    kinds: list[Damage] = [*BYTE_DAMAGE]
    if suffix in (".yaml", ".json", ".log"):
        kinds += [malicious_document, change_value, change_value, change_value]
    if suffix == ".yaml":
        kinds += [name_code, name_code]
    if suffix == ".csv":
        kinds += [change_cells, change_cells]
    if suffix in (".zip", ".npz", ".pt"):
        kinds += [damage_archive] * 3
    return rng.choice(kinds)(rng, content)
