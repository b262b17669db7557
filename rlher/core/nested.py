"""Nested mappings as dotted keys, their values, and finite numbers from files."""

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``("a.b.c", value)`` for each leaf of a nested mapping.

    An empty mapping is a leaf, and so is one with names such as ``module:name``, which are no keys.
    """
    for name, value in tree.items():
        if isinstance(value, Mapping) and value and not any(":" in str(each) for each in value):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def unflatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nested mapping of dotted keys; the inverse of :func:`flatten`.

    :raises ValueError: a key is the section of another, whose value it would hide.
    """
    tree: dict[str, Any] = {}
    for key, value in values.items():
        if any(other.startswith(f"{key}.") for other in values):
            raise ValueError(f"{key!r} is given twice, as a value and as a section")
        *sections, name = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[name] = value
    return tree


def finite_float(value: Any) -> float | None:
    """Return a finite number read from a file as float; None for any other value, booleans included."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    return float(value) if is_number else None
