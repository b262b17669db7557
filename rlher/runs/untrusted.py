"""What is not done with a run folder that somebody else may have made."""

import os
import sys
from pathlib import Path
from typing import Any

from rlher.config.environment import EnvConfig
from rlher.core.errors import UserError
from rlher.core.files import links_outside

OURS = ("checkpoints", "models", "clips")
"""Folders in a run's that we write to; in that of Weights & Biases, links lead to its logs in the home folder."""


def require_own_modules(env: EnvConfig, folder: Path) -> None:
    """Refuse an environment whose code lies in the run folder: who opens a run does not mean to run what came with it.

    Code that is installed, or lies in the current folder, a person has put there.

    :raises UserError: it does.
    """
    modules = [*env.modules, *([env.id.rpartition(":")[0]] if ":" in env.id else [])]
    for module in modules:
        for root in (*sys.path, os.getcwd()):
            path = Path(root, *module.split("."))
            there = path.is_dir() or any(path.with_name(path.name + end).exists() for end in (".py", ".pyc", ".so"))
            if there and not links_outside(path, folder):
                raise UserError(
                    f"{folder} names a module that lies in it, {module!r}, and no code is run that comes with a run. "
                    "Where you trust it, move it out of there, and import it by another name."
                )


def require_resolved(values: Any) -> None:
    """Refuse values that OmegaConf would replace, such as ``${oc.env:HOME}``; a run's config has them resolved.

    :raises ValueError: one of them is of that kind.
    """
    rest = [values]
    while rest:
        node = rest.pop()
        if isinstance(node, str) and "${" in node:
            raise ValueError(f"it refers to something else, {node!r}, which no run's config does")
        rest += [*node, *node.values()] if isinstance(node, dict) else node if isinstance(node, list) else []


def require_no_way_out(folder: Path) -> None:
    """Refuse a run folder in which a link that we would write through leads out of it.

    :raises UserError: one does.
    """
    for path in (*folder.iterdir(), *(path for name in OURS for path in (folder / name).rglob("*"))):
        if path.is_symlink() and links_outside(path, folder):
            raise UserError(f"{path} is a link that leads out of the run folder, so nothing is written there.")
