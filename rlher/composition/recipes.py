"""Recipes: YAML files of config keys, whose values are set before those of a command line."""

from pathlib import Path
from typing import Any

from rlher.composition.groups import names_in_group
from rlher.config.conf_files import conf_files, read_mapping
from rlher.config.key import dotted_keys
from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import UserError, did_you_mean
from rlher.core.safe_files import YAML_SUFFIXES


def read(name: str) -> dict[str, Any]:
    """Return the values of a recipe, nested; those of a file may name code that is not trusted.

    :param name: of a recipe in ``hyperparams/`` or in a ``--config-dir``, or a YAML file.
    :raises UserError: there is no such recipe, or it cannot be used.
    """
    path = Path(name) if is_file(name) else conf_files("recipe").get(name)
    if path is None:
        near = did_you_mean(name, names_in_group("recipe"))
        raise UserError(f"there is no recipe {name!r}{near}; a recipe file is given as recipe=<file>.yaml.")
    recipe = read_mapping(path)
    if any(isinstance(entry, dict) and "policy" in entry for entry in recipe.values()):
        raise UserError(f"{path} has RL Zoo's hyperparameters, not a recipe; read them with --conf-file {path}.")
    for key, field in dotted_keys(OptimizeConfig).items():
        if key in recipe and field.metadata.get("command_line_only"):  # with trust_code a file would trust itself
            raise UserError(f"{path} sets {key}, which belongs on the command line; remove the key.")
    return recipe


def is_file(name: str) -> bool:
    """Return whether a recipe is a file, and not the name of one that comes with rlher or a ``--config-dir``."""
    return name.endswith(YAML_SUFFIXES)
