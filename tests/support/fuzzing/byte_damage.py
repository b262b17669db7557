"""Damage to any file: cut off, flipped bits, inserted or missing bytes, other content."""

from collections.abc import Callable
from random import Random

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
