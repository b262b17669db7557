"""Installed packages that extend rlher: plugins.

A plugin has an entry point in the group ``rlher.plugins``, which names a module. The module may have the attributes of
:data:`ATTRIBUTES`. If a plugin reuses a name of rlher, rlher's entry counts.
"""

import functools
from collections import UserDict
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rlher.core.console import warn
from rlher.core.errors import describe_error

ATTRIBUTES = {"ALGORITHMS": dict, "CONF": Path, "COMMANDS": dict}
"""Type of each attribute: entries of ``rlher.config.algorithms.ALGORITHMS``, a folder like ``conf/``, and entries of
``rlher.cli.commands.COMMANDS``."""


def plugin_values(attribute: str) -> Iterator[Any]:
    """Yield the value of one of :data:`ATTRIBUTES` for each plugin that has it."""
    return (getattr(plugin, attribute) for plugin in _plugins() if hasattr(plugin, attribute))


class Registry(UserDict):
    """Entries by name: the entries of rlher, then the entries that plugins add.

    Plugins are imported at the first lookup, because they import rlher.

    :param attribute: name of the dictionary in each plugin, one of :data:`ATTRIBUTES`.
    :param own: entries of rlher.
    """

    def __init__(self, attribute: str, own: dict[str, Any]) -> None:
        self._attribute, self._own = attribute, own

    @functools.cached_property
    def data(self) -> dict[str, Any]:  # type: ignore[override]
        """All entries, rlher's first; a plugin cannot replace them."""
        entries = dict(self._own)
        for added in plugin_values(self._attribute):
            for name, entry in added.items():
                entries.setdefault(name, entry)
        return entries


@functools.cache
def _plugins() -> tuple[Any, ...]:
    plugins = []
    for entry in entry_points(group="rlher.plugins"):
        try:
            plugin = entry.load()
            for name, expected_type in ATTRIBUTES.items():
                if hasattr(plugin, name) and not isinstance(getattr(plugin, name), expected_type):
                    raise TypeError(f"{name} is not a {expected_type.__name__}")
            plugins.append(plugin)
        except (Exception, SystemExit) as error:  # rlher and the other plugins still work
            warn(f"the plugin {entry.value} is left out: {describe_error(error)}.")
    return tuple(plugins)
