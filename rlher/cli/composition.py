"""The config of a command, which Hydra composes from ``conf/`` and the overrides of a command line.

A sweep (``-m``) has a config for each combination of its values.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from rlher.cli import recipes
from rlher.cli.commands import Command
from rlher.cli.flags import CommandLine
from rlher.cli.groups import option_file
from rlher.cli.messages import hydra_errors_as_user_errors
from rlher.cli.overrides import assign, values_of
from rlher.config.algorithms import ALGORITHMS
from rlher.config.conf_files import conf_folders
from rlher.config.key import to_object
from rlher.config.override_syntax import literal, quote
from rlher.core.errors import UserError
from rlher.run.trust import require_no_code

COMPOSE_ERRORS = (yaml.YAMLError, TypeError, ValueError, AttributeError, AssertionError, RecursionError)
"""What Hydra and OmegaConf raise for invalid input besides their own exceptions."""


class Composed(NamedTuple):
    """A config and the overrides that it was composed from; those of a sweep have single values."""

    overrides: list[str]
    config: Any


def compose(command: Command, line: CommandLine) -> list[Composed]:
    """Compose the config of a command line, or several of a sweep.

    :raises UserError: it cannot be composed, or a value is invalid.
    """
    for folder in line.config_dirs:
        if not Path(folder).is_dir():
            raise UserError(f"there is no folder {folder}; check --config-dir.")
    with hydra_errors_as_user_errors(), _initialized(command):
        try:
            every = _combinations(line.overrides) if line.is_sweep else [line.overrides]
            return [Composed(each, _compose(command, each, line.config_dirs)) for each in every]
        except COMPOSE_ERRORS as error:
            raise UserError(f"invalid configuration: {' '.join(str(error).split()).rstrip('.')}.") from None


@contextlib.contextmanager
def _initialized(command: Command) -> Iterator[None]:
    """Initialise Hydra for a command within the block; a program that calls rlher may use Hydra itself."""
    store = ConfigStore.instance().store
    store(name=command.name, node=command.schema)
    for name, algorithm in ALGORITHMS.items():
        store(group="algo", name=name, node=algorithm.config(name))
    previous = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_module("rlher.conf", version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = previous


def _combinations(overrides: Sequence[str]) -> list[list[str]]:
    """Return the overrides of each combination of a sweep's values."""
    parser = OverridesParser.create(GlobalHydra.instance().config_loader())
    choices = [
        [f"{each.get_key_element()}={value}" for value in each.sweep_string_iterator()]
        if each.is_sweep_override()
        else [str(each.input_line)]
        for each in parser.parse_overrides(list(overrides))
    ]
    return [list(each) for each in itertools.product(*choices)]


def _compose(command: Command, words: Sequence[str], config_dirs: Sequence[str]) -> Any:
    """Compose the config of one job: algorithm and environment, then the values of the recipe, then those typed."""
    values = values_of(words)
    choices = command.choices()
    choices |= {group: str(values.pop(group)) for group in choices if not isinstance(values.get(group, {}), dict)}
    if env := choices.get("env"):
        if file := option_file("env", env, config_dirs):
            recipes.read_file(file)  # Hydra, which reads it next, has no limits
        else:
            choices["env"], values = "any", {"env.id": env} | values
    folders = [f"file://{folder.absolute()}" for folder in conf_folders(config_dirs)]
    groups = [f"+{group}={quote(name)}" for group, name in choices.items() if name]
    config = hydra.compose(command.name, [f"hydra.searchpath={literal(folders)}", *groups])
    keys = command.keys(choices)
    if "recipe" in keys and (recipe := _chosen_recipe(values, choices, config_dirs)):
        found, before = recipes.read(recipe, config_dirs), OmegaConf.to_container(config)
        assign(config, found, keys, f"recipe {recipe} does not fit algo={choices['algo']}, which has no key")
        if recipes.is_file(recipe) and values.get("trust_code") is not True:  # whatever way the file is written in
            require_no_code(Path(recipe), OmegaConf.to_container(config), before)
        values["recipe"] = recipe
    assign(config, values, keys)
    return to_object(config)


def _chosen_recipe(values: Mapping[str, Any], choices: Mapping[str, Any], config_dirs: Sequence[str]) -> str | None:
    """Return the name of the typed recipe, or else that of the algorithm and the environment; None if it has none."""
    default = f"{choices['algo']}-{choices['env']}"
    return values.get("recipe", default if option_file("recipe", default, config_dirs) else None)
