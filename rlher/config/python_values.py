"""Convert Python values for a config: numbers, texts, lists, mappings, and names of functions and classes."""

import os
from collections.abc import Mapping
from typing import Any

from rlher.core.errors import UserError


def config_value(value: Any) -> Any:
    """Return nested values with functions and classes as ``module:name``, and NumPy values as Python values.

    :raises UserError: a config cannot hold one of the values.
    """
    if isinstance(value, Mapping):
        return {config_value(name): config_value(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return list(map(config_value, value))
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    if isinstance(value, int | float | None):
        return value
    name = getattr(value, "__qualname__", None)
    if name is None:
        advice = "give a name, number, list or {Class: arguments}"
        raise UserError(f"a config cannot hold {type(value).__name__}; {advice}.")
    if value.__module__ == "__main__" or not name.isidentifier():
        advice = "define it at the top level in a module of your own, not in the script or notebook that runs"
        raise UserError(f"{name} cannot be imported by name, as evaluating or resuming the run must; {advice}.")
    return f"{value.__module__}:{name}"
