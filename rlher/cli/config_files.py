"""The YAML files of the config groups: those of ``conf/``, of ``--config-dir``, and recipe files."""

import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore

from rlher.cli.key_suggestions import integer_keys
from rlher.core.errors import UserError, did_you_mean, first_line, os_error_reason
from rlher.core.nested import flatten, unflatten
from rlher.core.safe_read import read_yaml

YAML_SUFFIXES = (".yaml", ".yml")
NO_RECIPE = "none"
ZOO_KEYS = {"policy", "n_timesteps"}
"""Hyperparameters that every entry of RL Zoo's files has, and no section of a recipe."""
_recipe_files: dict[str, str] = {}


def options(group: str) -> list[str]:
    """Return the names that a config group of ``conf/`` offers."""
    folder = resources.files("rlher.conf") / group
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def has_option(group: str, name: str, config_dirs: Sequence[str]) -> bool:
    """Return whether a config group offers a name, in ``conf/`` or in a ``--config-dir``."""
    return name in options(group) or any((Path(folder) / group / f"{name}.yaml").is_file() for folder in config_dirs)


def require_readable(overrides: Sequence[str], config_dirs: Sequence[str]) -> None:
    """Raise UserError if a chosen file of a ``--config-dir`` is invalid or, by its aliases, too large for Hydra."""
    for group, _, value in (word.partition("=") for word in overrides):
        for path in (Path(folder) / group / f"{name}.yaml" for folder in config_dirs for name in value.split(",")):
            if path.is_file():
                read_file(path)


def select_recipe(value: str, config_dirs: Sequence[str]) -> str:
    """Return the override that selects the recipes of ``recipe=<value>``; several make a sweep.

    :param value: names or YAML files, joined by commas, or ``null``.
    :raises UserError: a name is unknown, or a file cannot be read.
    """
    names = [value] if value in ("", "null") or Path(value).is_file() else value.split(",")
    return "recipe=" + ",".join(_recipe_option(name, config_dirs) for name in names)


def _recipe_option(name: str, config_dirs: Sequence[str]) -> str:
    if name.endswith(YAML_SUFFIXES):
        return _store_recipe(Path(name))
    if name in ("", "null"):  # Hydra refuses null for an optional group
        ConfigStore.instance().store(group="recipe", name=NO_RECIPE, node={}, package="_global_")
        return NO_RECIPE
    if not has_option("recipe", name, config_dirs):
        near = did_you_mean(name, options("recipe"))
        raise UserError(f"there is no recipe {name!r}{near}; a recipe file is given as recipe=<file>.yaml.")
    return name


def _store_recipe(path: Path) -> str:
    """Register a recipe file as an option of the group ``recipe``, and return the option's name."""
    recipe = read_file(path)
    if not isinstance(recipe, dict):
        raise UserError(f"{path} is not a recipe; it must be a mapping of keys to values.")
    if any(isinstance(entry, dict) and ZOO_KEYS & entry.keys() for entry in recipe.values()):
        raise UserError(f"{path} has RL Zoo's hyperparameters, not a recipe; read them with --conf-file {path}.")
    integers = integer_keys()
    values = {name: _integer(value) if name in integers else value for name, value in flatten(recipe)}
    values = {name: value for name, value in values.items() if name.split(".")[0] not in ("defaults", "hydra")}
    option = re.sub(r"\W", "_", str(path))
    _recipe_files[option] = str(path)
    node = {**unflatten(values), "recipe": str(path)}
    ConfigStore.instance().store(group="recipe", name=option, node=node, package="_global_")
    return option


def recipe_file(option: str) -> str | None:
    """Return the file that was registered as an option of the group ``recipe``, None for any other option."""
    return _recipe_files.get(option)


def _integer(value: Any) -> Any:
    """Return 100000 for the YAML values 1e5 and 1.0e+5, and any other value unchanged."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return value
    return int(number) if number.is_integer() and not isinstance(value, bool) else value


def read_file(path: Path) -> Any:
    """Return the content of a YAML file.

    :raises UserError: it cannot be read.
    """
    try:
        return read_yaml(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {os_error_reason(error)}.") from error
    except ValueError as error:
        raise UserError(f"cannot read {path}: {first_line(error)}.") from error
