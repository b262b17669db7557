"""Installed packages that extend rlher, each by an entry point of the group ``rlher.plugins`` that names a module.

The module may have ``ALGORITHMS`` (entries of :data:`rlher.config.algorithms.ALGORITHMS`), ``CONF`` (a folder with
``env/*.yaml`` and ``recipe/*.yaml``) and ``COMMANDS`` (modules like those of :mod:`rlher.cli.commands`, by name).
"""

import functools
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from rlher.core.console import warn
from rlher.core.errors import describe_error


def plugin_values(attribute: str) -> Iterator[Any]:
    """Yield the value of an attribute for each plugin that has it."""
    return (getattr(plugin, attribute) for plugin in _plugins() if hasattr(plugin, attribute))


@functools.cache
def _plugins() -> tuple[Any, ...]:
    found = []
    for entry in entry_points(group="rlher.plugins"):
        try:
            found.append(entry.load())
        except Exception as error:  # the others, and rlher itself, can still be used
            warn(f"the plugin {entry.value} is left out: {describe_error(error)}.")
    return tuple(found)
