"""Damage to a file's content, of a kind that fits the file."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.support.fuzzing.archive_damage import damage_archive
from tests.support.fuzzing.byte_damage import BYTE_DAMAGE, Damage
from tests.support.fuzzing.text_damage import change_cells, change_value, malicious_document, name_code

ODD_FILES: tuple[Callable[[Path], object], ...] = (
    os.mkfifo,
    Path.mkdir,
    Path.touch,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/dev/stdin"),
    lambda path: path.symlink_to("/etc/passwd"),
    lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("."),
    lambda path: (path.touch(), os.truncate(path, 10**12)),
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
