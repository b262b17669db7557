"""Installed packages that extend rlher, each by an entry point of the group ``rlher.plugins`` that names a module.

The module may have the attributes of :data:`ATTRIBUTES`. rlher's own names count before those of plugins.
"""

import functools
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, get_type_hints

from rlher.core.console import warn
from rlher.core.errors import describe_error

ATTRIBUTES = {"ALGORITHMS": dict, "CONF": Path, "COMMANDS": dict}
"""Type of each attribute: entries of :data:`rlher.config.algorithms.ALGORITHMS`, a folder like ``conf/``, and functions
like those of :mod:`rlher.cli.commands` by name."""


def plugin_values(attribute: str) -> Iterator[Any]:
    """Yield the value of one of :data:`ATTRIBUTES` for each plugin that has it."""
    return (getattr(plugin, attribute) for plugin in _plugins() if hasattr(plugin, attribute))


@functools.cache
def _plugins() -> tuple[Any, ...]:
    plugins = []
    for entry in entry_points(group="rlher.plugins"):
        try:
            plugin = entry.load()
            for name, kind in ATTRIBUTES.items():
                if not isinstance(getattr(plugin, name, kind()), kind):
                    raise TypeError(f"{name} is not a {kind.__name__}")
            for name, run in getattr(plugin, "COMMANDS", {}).items():
                if "config" not in get_type_hints(run):
                    raise TypeError(f"the command {name} does not annotate its config")
        except (Exception, SystemExit) as error:  # the other plugins, and rlher itself, can be used
            warn(f"the plugin {entry.value} is left out: {describe_error(error)}.")
        else:
            plugins.append(plugin)
    return tuple(plugins)
