"""Nested mappings and lists: convert mappings to dotted keys and back, and list all values."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def flatten(
    tree: Mapping[str, Any], is_section: Callable[[str, Mapping[str, Any]], bool], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield ``("a.b.c", value)`` for each value of a nested mapping.

    :param is_section: returns whether the mapping with this dotted key is a section, whose entries have keys of their
        own. Another mapping is a value, and so is an empty one.
    :param prefix: what the dotted keys begin with.
    """
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and is_section(key, value):
            yield from flatten(value, is_section, f"{key}.")
        else:
            yield key, value


def to_dotted_keys(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield ``("a.b.c", value)`` for each leaf of a nested mapping.

    A mapping with names such as ``module:name`` is a leaf, because these are no keys.
    """
    return flatten(tree, lambda _, section: not any(":" in str(name) for name in section))


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
