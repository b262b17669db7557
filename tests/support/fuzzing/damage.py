"""Damage to a file's content, of a kind that fits the file."""

from random import Random

from tests.support.fuzzing.archive_damage import damage_archive
from tests.support.fuzzing.byte_damage import BYTE_DAMAGE, Damage
from tests.support.fuzzing.text_damage import change_cells, change_value, malicious_document


def damaged(rng: Random, suffix: str, content: bytes) -> bytes:
    """Return a damaged copy of a file's content.

    :param suffix: suffix of the file's name, which decides on the kinds of damage.
    """
    kinds: list[Damage] = [*BYTE_DAMAGE]
    if suffix in (".yaml", ".json", ".log"):
        kinds += [malicious_document, change_value, change_value, change_value]
    if suffix == ".csv":
        kinds += [change_cells, change_cells]
    if suffix in (".zip", ".npz", ".pt"):
        kinds += [damage_archive] * 3
    return rng.choice(kinds)(rng, content)
