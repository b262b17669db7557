"""Compose the config of a command from layers: defaults, environment file, recipe, overrides."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from rlher.config.algorithms import ALGORITHMS
from rlher.config.assignment import set_values
from rlher.config.conf_files import conf_files, find_conf_file, is_yaml_path, read_env_file, read_mapping
from rlher.config.environment import EnvConfig
from rlher.config.key import flatten_sections, keys_of, validate, values_by_key
from rlher.config.overrides import expand_overrides, names_in_group
from rlher.config.training import RunConfig
from rlher.config.trust import require_trusted_code, trusts_code
from rlher.core.errors import UserError, did_you_mean, first_line

DEFAULT_ALGO, DEFAULT_ENV = "tqc", "parking-v0"

Config = TypeVar("Config")


def compose(schema: type[Config], overrides: Mapping[str, Any]) -> Config:
    """Return the config of a command.

    The layers are applied in this order: defaults, the environment's YAML file, the recipe, the overrides. A later
    layer overrides the values of an earlier one.

    :param schema: dataclass of the config, such as :class:`~rlher.config.training.RunConfig`.
    :param overrides: values by config key or short form.
    :raises UserError: the config cannot be composed, or a value is invalid.
    """
    values = expand_overrides(overrides)
    trust_code = trusts_code(values)
    config: Any = schema()
    is_run = isinstance(config, RunConfig)
    algo = values.pop("algo", DEFAULT_ALGO if is_run else None)
    env = values.pop("env", DEFAULT_ENV if getattr(config, "env", None) else None)
    if algo and algo not in ALGORITHMS:
        known = ", ".join(names_in_group("algo"))
        raise UserError(f"there is no algo {algo!r}{did_you_mean(algo, ALGORITHMS)}; use one of {known}.")

    if algo:
        config.algo = ALGORITHMS[algo].config(name=algo)
    if env:
        config.env = _env_config(env, trust_code)
    if is_run:
        default = f"{algo}-{env}"
        config.recipe = values.pop("recipe", default if default in conf_files("recipe") else None)
        if config.recipe:
            _assign_recipe(config, config.recipe, trust_code)
    set_values(config, values)

    if algo and (name := config.algo.name) != algo:  # algorithms differ in their keys
        raise UserError(f"algo.name={name} does not fit algo={algo}; choose the algorithm with algo={name}.")
    validate(config)
    return config


def _env_config(name: str, trust_code: bool) -> EnvConfig:
    """Return the config of an environment.

    :param name: name of a file in ``conf/env/``, the path of a YAML file, or a registered id.
    :raises UserError: the YAML file cannot be read, or names code that is not trusted.
    """
    file = find_conf_file("env", name)
    if file is None:
        return EnvConfig(id=name)
    config = read_env_file(file)
    if is_yaml_path(name):
        require_trusted_code(file, values_by_key(config, "env."), trust_code)
    return config


def _assign_recipe(config: RunConfig, name: str, trust_code: bool) -> None:
    """Set the values of a recipe in a config.

    :raises UserError: there is no such recipe, or the recipe does not fit the algorithm, sets a key that is no
        parameter, or names code that is not trusted.
    """
    settings = [name for name, key in keys_of(config).items() if not key.rules.is_param]  # such as trust_code
    recipe = dict(flatten_sections(config, _read_recipe(name)))
    if wrong := [key for key in recipe if key in settings]:
        raise UserError(f"recipe {name} sets {wrong[0]}, which is no parameter; give the key on the command line.")
    if is_yaml_path(name):
        require_trusted_code(Path(name), recipe, trust_code)
    try:
        set_values(config, recipe)
    except UserError as error:
        raise UserError(f"recipe {name} does not fit algo={config.algo.name}: {first_line(error)}.") from None


def _read_recipe(name: str) -> dict[str, Any]:
    """Return the nested values of a recipe. The values of a file may name code that is not trusted.

    :param name: name of a recipe in ``hyperparams/``, or the path of a YAML file.
    :raises UserError: there is no such recipe, or the recipe cannot be used.
    """
    path = find_conf_file("recipe", name)
    if path is None:
        near = did_you_mean(name, names_in_group("recipe"))
        raise UserError(f"there is no recipe {name!r}{near}; a recipe file is given as recipe=<file>.yaml.")
    recipe = read_mapping(path)
    if any(isinstance(entry, dict) and "policy" in entry for entry in recipe.values()):
        raise UserError(f"{path} has RL Zoo's hyperparameters, not a recipe; read them with --conf-file {path}.")
    return recipe
