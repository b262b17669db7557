"""Nested mappings and lists: convert mappings to dotted keys and back, and list all values."""

from collections.abc import Iterator, Mapping
from typing import Any


def to_dotted_keys(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``("a.b.c", value)`` for each leaf of a nested mapping.

    An empty mapping is a leaf. A mapping with names such as ``module:name`` is a leaf too, because these are no keys.
    """
    for name, value in tree.items():
        if isinstance(value, Mapping) and value and not any(":" in str(key) for key in value):
            yield from to_dotted_keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def from_dotted_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys as a nested mapping. This is the inverse of :func:`to_dotted_keys`."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[name] = value
    return tree


def leaves(tree: Any) -> list[Any]:
    """Return the values in nested mappings and lists, and the names ``module:name`` that are keys of a mapping."""
    if isinstance(tree, dict):
        code_names = [name for name in tree if ":" in str(name)]  # as in `her.goal_mix`
        return leaves([*code_names, *tree.values()])
    if isinstance(tree, list):
        return [value for branch in tree for value in leaves(branch)]
    return [tree]
