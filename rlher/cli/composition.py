"""The config of a command: defaults, the environment's YAML file, the recipe, and the overrides of a command line.

A sweep (``-m``) has a config for each combination of their values.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from rlher.cli import recipes
from rlher.cli.command import Command
from rlher.cli.flags import CommandLine
from rlher.cli.groups import option_file, options
from rlher.cli.messages import hydra_errors_as_user_errors
from rlher.cli.overrides import assign, config_values
from rlher.config.algorithms import ALGORITHMS
from rlher.config.conf_files import read_env
from rlher.config.environment import EnvConfig
from rlher.config.key import to_object
from rlher.core.errors import UserError, did_you_mean
from rlher.run.trust import require_no_code


class ComposedConfig(NamedTuple):
    """A config and the overrides that it was composed from, by key."""

    overrides: Mapping[str, Any]
    config: Any


def compose(command: Command, line: CommandLine) -> list[ComposedConfig]:
    """Compose the config of a command line, or several of a sweep.

    :raises UserError: it cannot be composed, or a value is invalid.
    """
    for folder in line.config_dirs:
        if not Path(folder).is_dir():
            raise UserError(f"there is no folder {folder}; check --config-dir.")
    combinations = itertools.product(*line.overrides.values())
    jobs = [dict(zip(line.overrides, values, strict=True)) for values in combinations]
    return [ComposedConfig(overrides, compose_overrides(command, overrides, line.config_dirs)) for overrides in jobs]


@hydra_errors_as_user_errors()
def compose_overrides(command: Command, overrides: Mapping[str, Any], config_dirs: Sequence[str] = ()) -> Any:
    """Compose a config, a layer after the other.

    :param overrides: values by config key or short form.
    :raises UserError: it cannot be composed, or a value is invalid.
    """
    values = config_values(overrides)
    choices = command.choices()
    choices |= {group: str(values.pop(group)) for group in choices if group in values}
    keys, config = command.keys(choices), OmegaConf.structured(command.schema)
    if algo := choices.get("algo"):
        if algo not in ALGORITHMS:
            known = ", ".join(options("algo"))
            raise UserError(f"there is no algo {algo!r}{did_you_mean(algo, ALGORITHMS)}; use one of {known}.")
        config.algo = ALGORITHMS[algo].config(algo)
    if env := choices.get("env"):
        file = option_file("env", env, config_dirs)
        config.env = read_env(file) if file else EnvConfig(env)
    if "recipe" in keys and (recipe := _chosen_recipe(values, choices, config_dirs)):
        before = OmegaConf.to_container(config)
        recipe_values = recipes.read(recipe, config_dirs)
        assign(config, recipe_values, keys, f"recipe {recipe} does not fit algo={algo}, which has no key")
        # Values are compared before and after, because a file can write a key in several ways.
        if recipes.is_file(recipe) and values.get("trust_code") is not True:
            require_no_code(Path(recipe), OmegaConf.to_container(config), before)
        values["recipe"] = recipe
    assign(config, values, keys)
    return to_object(config)


def _chosen_recipe(values: Mapping[str, Any], choices: Mapping[str, Any], config_dirs: Sequence[str]) -> str | None:
    """Return the name of the recipe that was given, or of the one for algorithm and environment; None: no recipe."""
    default = f"{choices['algo']}-{choices['env']}"
    return values.get("recipe", default if option_file("recipe", default, config_dirs) else None)
