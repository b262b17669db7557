"""Checks for run folders from untrusted sources."""

import os
import sys
from pathlib import Path
from typing import Any

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.core.safe_read import links_outside
from rlher.envs.user_classes import user_classes

WRITTEN_FOLDERS = ("checkpoints", "models", "clips")
"""Subfolders of a run that rlher writes to. Others, such as ``wandb``, may contain links to the home folder."""


def named_modules(config: TrainConfig) -> list[tuple[str, str]]:
    """Return the keys of a config that name modules, with each module.

    :raises UserError: an entry of ``env.wrappers`` or ``callbacks`` does not name a class.
    """
    env = config.env
    classes = [*user_classes("env.wrappers", env.wrappers), *user_classes("callbacks", config.callbacks)]
    found = [("env.modules", module) for module in env.modules] + [(each.key, each.module) for each in classes]
    return [*found, *([("env.id", env.id.rpartition(":")[0])] if ":" in env.id else [])]


def refuse_modules_in_folder(config: TrainConfig, folder: Path) -> None:
    """Raise UserError if code that a config names lies in the run folder: opening a run must not run it.

    Code that is installed or lies in the current folder is used.
    """
    for key, module in named_modules(config):
        for root in (*sys.path, os.getcwd()):
            path = Path(root, *module.split("."))
            exists = path.is_dir() or any(path.with_name(path.name + end).exists() for end in (".py", ".pyc", ".so"))
            if exists and not links_outside(path, folder):
                raise UserError(
                    f"{key} names {module!r}, which lies in {folder}, and code in a run folder is not executed; "
                    "if you trust it, move it out of the folder and import it by another name."
                )


def require_no_interpolations(values: Any) -> None:
    """Raise ValueError if nested values contain an interpolation, such as ``${oc.env:HOME}``.

    A run's config is written with all interpolations resolved.
    """
    stack = [values]
    while stack:
        node = stack.pop()
        if isinstance(node, str) and "${" in node:
            raise ValueError(f"it contains the interpolation {node!r}")
        stack += [*node, *node.values()] if isinstance(node, dict) else node if isinstance(node, list) else []


def refuse_links_outside(folder: Path) -> None:
    """Raise UserError if a link that rlher would write through leads out of the run folder."""
    for path in (*folder.iterdir(), *(path for name in WRITTEN_FOLDERS for path in (folder / name).rglob("*"))):
        if path.is_symlink() and links_outside(path, folder):
            raise UserError(f"{path} is a link out of the run folder; delete the link to resume the run.")
