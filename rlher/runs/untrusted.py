"""Checks for run folders from untrusted sources: opening one runs no code but that of installed packages."""

import os
import re
import sys
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.core.safe_read import links_outside
from rlher.envs.user_classes import UserClass, user_classes

WRITTEN_FOLDERS = ("checkpoints", "models", "clips")
"""Subfolders of a run that rlher writes to. Others, such as ``wandb``, may contain links to the home folder."""

PLAIN_TEXT = re.compile(r"[\w -]*")
"""Text that names no class, file or expression, whatever an environment does with it."""


class UntrustedCode(UserError):
    """A run folder names code that is not installed; ``key`` is the config key that names it."""

    def __init__(self, folder: Path, key: str, value: Any, reason: str) -> None:
        super().__init__(
            f"{folder} was not trained here, and its {key}={value!r} {reason}; read the code, and add --trust-code to "
            "run it."
        )
        self.key = key


def require_installed_code(config: TrainConfig, folder: Path) -> None:
    """Raise UntrustedCode unless a run needs only code of installed packages.

    No module is searched for in the current folder any more in this process, and in those that it starts.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != os.path.realpath("")]
    for key, module in named_modules(config):
        if not is_installed(module):
            raise UntrustedCode(folder, key, module, "is no module of an installed package that requires Gymnasium")
    for key, kwargs in (("env.kwargs", config.env.kwargs), ("algo.kwargs", config.algo.kwargs)):
        for leaf in _leaves(kwargs):
            if not _is_number(leaf) and not (isinstance(leaf, str) and PLAIN_TEXT.fullmatch(leaf)):
                raise UntrustedCode(folder, key, leaf, "may name a class or a file")
    for each in _classes(config):
        for leaf in _leaves(list(each.kwargs.values())):
            if not _is_number(leaf):  # even a plain word may be the file that a monitor or a callback overwrites
                raise UntrustedCode(folder, each.key, leaf, f"is an argument of {each.name} that may name a file")


def named_modules(config: TrainConfig) -> list[tuple[str, str]]:
    """Return the keys of a config that name modules, with each module.

    :raises UserError: an entry of ``env.wrappers`` or ``callbacks`` does not name a class.
    """
    module, colon, _ = config.env.id.rpartition(":")
    found = [("env.modules", name) for name in config.env.modules] + [
        (each.key, each.module) for each in _classes(config)
    ]
    return [*found, *([("env.id", module)] if colon else [])]


def _classes(config: TrainConfig) -> list[UserClass]:
    wrappers, callbacks = user_classes("env.wrappers", config.env.wrappers), user_classes("callbacks", config.callbacks)
    return [*wrappers, *callbacks]


def is_installed(module: str) -> bool:
    """Return whether importing a module runs only files of installed packages that require Gymnasium.

    Nothing is imported. The files of an editable install are not listed by its distribution.
    """
    names = module.split(".")
    if not all(map(str.isidentifier, names)) or "__main__" in names:
        return False
    spec, files = None, _environment_files()
    for end in range(1, len(names) + 1):
        spec = _find_spec(".".join(names[:end]), spec.submodule_search_locations if spec else None)
        if spec is None or (spec.has_location and spec.origin not in files and names[0] != "rlher"):
            return False
        if not spec.has_location and spec.submodule_search_locations is None:  # of the standard library
            return False
    return spec is not None and spec.has_location  # a namespace package has no file


def _find_spec(name: str, path: Any) -> ModuleSpec | None:
    """Find a module as ``import`` does, without importing the package it lies in."""
    if name in sys.modules:
        return sys.modules[name].__spec__
    found = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next(filter(None, found), None)


def _environment_files() -> set[str]:
    """Return the files of all installed packages that require Gymnasium, and of itself."""
    needs = ((each, [each.name, *(each.requires or ())]) for each in metadata.distributions())
    packages = (each for each, names in needs if any(map(_is_gymnasium, names)))
    return {str(each.locate_file(file)) for each in packages for file in each.files or ()}


def _is_gymnasium(requirement: str) -> bool:
    return re.match(r"gymnasium(?![\w.-])(?!.*\bextra\b)", requirement, re.IGNORECASE) is not None


def _leaves(value: Any) -> list[Any]:
    """Return everything in nested mappings and lists, keys of mappings included."""
    if isinstance(value, dict):
        return [leaf for pair in value.items() for each in pair for leaf in _leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def _is_number(leaf: Any) -> bool:
    """Return whether a leaf is a number, a boolean or null: not a text, and not the bytes of YAML's ``!!binary``."""
    return leaf is None or isinstance(leaf, int | float)


def require_no_interpolations(values: Any) -> None:
    """Raise ValueError if nested values contain an interpolation, such as ``${oc.env:HOME}``.

    A run's config is written with all interpolations resolved.
    """
    for leaf in _leaves(values):
        if isinstance(leaf, str) and "${" in leaf:
            raise ValueError(f"it contains the interpolation {leaf!r}")


def require_own_files(folder: Path) -> None:
    """Raise UserError if a link that rlher would write through leads out of the run folder, or a file of it is a pipe.

    Checkpoints with a pipe count as damaged, see :func:`rlher.runs.checkpoint_store.verify`.
    """
    for path in folder.iterdir():
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UserError(f"{path} is not a regular file; delete it to resume the run.")
    for path in (*folder.iterdir(), *(path for name in WRITTEN_FOLDERS for path in (folder / name).rglob("*"))):
        if path.is_symlink() and links_outside(path, folder):
            raise UserError(f"{path} is a link out of the run folder; delete the link to resume the run.")
