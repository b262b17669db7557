"""Recipes: YAML files of config keys, whose values are put before the words of a command line."""

import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlher.cli.flags import OPEN_MAPPINGS, YAML_SUFFIXES, option_file, options, read_file
from rlher.cli.messages import closest_key, is_known
from rlher.config.key import dotted_keys
from rlher.config.override_syntax import literal
from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import UserError, did_you_mean
from rlher.core.nested import flatten
from rlher.run.trust import require_no_code


def read(name: str, config_dirs: Sequence[str], trust_code: bool) -> dict[str, Any]:
    """Return the values of a recipe by dotted key.

    :param name: of a recipe in ``hyperparams/`` or in a ``--config-dir``, or a YAML file.
    :param trust_code: the file may name code.
    :raises UserError: there is no such recipe, or it cannot be used.
    """
    if name.endswith(YAML_SUFFIXES):
        recipe = _read_file(Path(name), trust_code)
    elif file := option_file("recipe", name, config_dirs):
        recipe = read_file(file)
    else:
        near = did_you_mean(name, options("recipe"))
        raise UserError(f"there is no recipe {name!r}{near}; a recipe file is given as recipe=<file>.yaml.")
    values = flatten({key: value for key, value in (recipe or {}).items() if key not in ("defaults", "recipe")})
    return {key: value for key, value in values if value != {} or OPEN_MAPPINGS.match(key)}


def overrides(name: str, values: Mapping[str, Any], keys: Container[str], algo: str) -> list[str]:
    """Return the values of a recipe as overrides.

    :param name: of the recipe.
    :param keys: config keys of the command.
    :raises UserError: the recipe has another key.
    """
    for key in values:
        if not is_known(key, keys) or not re.fullmatch(r"[\w./-]+", key):
            raise UserError(f"recipe {name} does not fit algo={algo}, which has no key {key!r}{closest_key(key)}.")
    return [f"{'++' if OPEN_MAPPINGS.match(key) else ''}{key}={literal(value)}" for key, value in values.items()]


def _read_file(path: Path, trust_code: bool) -> dict[str, Any]:
    """Return the content of a recipe file.

    :raises UserError: it cannot be read, or names code and is neither trusted nor the user's own.
    """
    if "${" in str(path):
        raise UserError(f"{path} has ${{ in its name, which stands for another value in a config; rename it.")
    recipe = read_file(path)
    if not isinstance(recipe, dict):
        raise UserError(f"{path} is not a recipe; it must be a mapping of keys to values.")
    if any(isinstance(entry, dict) and "policy" in entry for entry in recipe.values()):
        raise UserError(f"{path} has RL Zoo's hyperparameters, not a recipe; read them with --conf-file {path}.")
    if not trust_code:
        require_no_code(path, recipe)
    for name, item in dotted_keys(OptimizeConfig).items():
        if name in recipe and not item.metadata["from_file"]:  # the file would trust itself
            raise UserError(f"{path} sets {name}, which belongs on the command line; remove the key.")
    return recipe
