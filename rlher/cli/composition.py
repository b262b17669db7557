"""The config of a command, which Hydra composes from ``conf/`` and the overrides of a command line.

A sweep (``-m``) has a config for each combination of its values.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import hydra
import yaml
from hydra._internal.hydra import Hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser

from rlher.cli import recipes
from rlher.cli.commands import Command
from rlher.cli.flags import GROUPS, CommandLine, her_overrides, option_file
from rlher.cli.messages import hydra_errors_as_user_errors, require_known, require_single
from rlher.config.algorithms import ALGORITHMS, spell_out_algorithm
from rlher.config.key import to_object
from rlher.config.override_syntax import literal
from rlher.core.errors import MissingFile, UserError

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
            raise MissingFile(Path(folder), f"there is no folder {folder}; check --config-dir.")
    with hydra_errors_as_user_errors(), initialized(command):
        try:
            every = _combinations(line.overrides) if line.is_sweep else [line.overrides]
            return [Composed(each, _compose(command, each, line.config_dirs)) for each in every]
        except COMPOSE_ERRORS as error:
            raise UserError(f"invalid configuration: {' '.join(str(error).split()).rstrip('.')}.") from None


@contextlib.contextmanager
def initialized(command: Command) -> Iterator[Hydra]:
    """Initialise Hydra for a command within the block; a program that calls rlher may use Hydra itself."""
    store = ConfigStore.instance().store
    store(group="schema", name=command.name, node=command.schema)
    for name, algorithm in ALGORITHMS.items():
        store(group="schema/algo", name=name, node=algorithm.config)
    previous = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_module("rlher.conf", version_base="1.3"):
            current: Any = GlobalHydra.instance().hydra
            yield current
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
    """Compose the config of one job: the values of the recipe, then those of ``her=``, then the other words."""
    words = [each for word in words for each in spell_out_algorithm(word)]
    parsed = OverridesParser.create().parse_overrides(words)
    require_single(parsed)
    typed = {str(each.key_or_group): each.value() for each in parsed}
    choices = command.default_choices() | {
        key: None if value is None else str(value) for key, value in typed.items() if key in GROUPS
    }
    keys = command.keys(choices)
    require_known(parsed, keys, [item.name for item in fields(command.schema)])
    overrides = [word for word, each in zip(words, parsed, strict=True) if each.key_or_group not in ("recipe", "her")]
    overrides = [*her_overrides(choices.get("her")), *overrides]
    recipe = _chosen_recipe(choices, config_dirs) if "recipe" in keys else None
    if recipe is not None:
        values = recipes.read(recipe, config_dirs, typed.get("trust_code") is True)
        overrides = [*recipes.overrides(recipe, values, keys, choices["algo"]), *overrides]
    folders = [f"file://{Path(folder).absolute()}" for folder in config_dirs]
    search = [f"hydra.searchpath={literal(folders)}"] if folders else []
    config = hydra.compose(command.name, overrides + search)
    if recipe is not None:
        config.recipe = recipe
    return to_object(config, command.schema)


def _chosen_recipe(choices: Mapping[str, Any], config_dirs: Sequence[str]) -> str | None:
    """Return the name of the typed recipe, or else that of the algorithm and the environment; None if it has none."""
    default = f"{choices['algo']}-{choices['env']}"
    return choices.get("recipe", default if option_file("recipe", default, config_dirs) else None)
