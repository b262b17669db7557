"""Recipes: YAML files of config keys, whose values are set before those of a command line."""

from typing import Any

from rlher.composition.groups import names_in_group
from rlher.config.conf_files import find_conf_file, read_mapping
from rlher.config.key import dotted_keys
from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import UserError, did_you_mean


def read(name: str) -> dict[str, Any]:
    """Return the values of a recipe, nested; those of a file may name code that is not trusted.

    :param name: of a recipe in ``hyperparams/``, or the path of a YAML file.
    :raises UserError: there is no such recipe, or it cannot be used.
    """
    path = find_conf_file("recipe", name)
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
