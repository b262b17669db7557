"""Modules imported a second time."""

import importlib.util
from types import ModuleType


def fresh_module(name: str) -> ModuleType:
    """Return a new import of a module, in which nothing is patched."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
