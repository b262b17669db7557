"""The config of a command, which Hydra composes from ``conf/`` and the overrides of a command line.

A sweep (``-m``) has a config for each combination of its values.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hydra
import yaml
from hydra._internal.hydra import Hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import open_dict

from rlher.cli.commands import Command
from rlher.cli.flags import CommandLine, has_option, typed_recipe
from rlher.cli.messages import hydra_errors_as_user_errors
from rlher.config.algorithms import ALGORITHMS
from rlher.config.key import to_object
from rlher.config.override_syntax import literal
from rlher.config.tuning import SweepJob
from rlher.core.console import command_line
from rlher.core.errors import MissingFile, UserError

COMPOSE_ERRORS = (yaml.YAMLError, TypeError, ValueError, AttributeError, AssertionError, RecursionError)
"""What Hydra and OmegaConf raise for invalid input besides their own exceptions."""

WORKER_KEYS = ("workers", "launcher", "ray_address")
"""Keys of a sweep that its runs do not have."""


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
            of_no_env = [word for word in line.overrides if word.startswith("env.")]
            if of_no_env and "NoneType" in str(error):  # env: null, as in conf/collect.yaml
                raise UserError(f"{of_no_env[0]} belongs to no environment; add env=<id>, or leave it out.") from error
            raise UserError(f"invalid configuration: {' '.join(str(error).split()).rstrip('.')}.") from error


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


def _compose(command: Command, overrides: list[str], config_dirs: Sequence[str]) -> Any:
    folders = [str(Path(folder).absolute()) for folder in config_dirs]
    search = [f"hydra.searchpath={literal([f'file://{folder}' for folder in folders])}"] if folders else []
    config = hydra.compose(command.name, overrides + search, return_hydra_config=True)
    recipe = config.hydra.runtime.choices.get("recipe")
    with open_dict(config):
        del config["hydra"]
    if "recipe" in config and config.recipe is None and recipe and has_option("recipe", recipe, folders):
        config.recipe = recipe  # the default, <algo>-<env>, may not exist
    return to_object(config, command.schema)


def sweep_jobs(name: str, jobs: Sequence[Composed]) -> list[SweepJob]:
    """Return the jobs of a sweep with a name each: the overrides that not all jobs have, all if there are no others.

    :param name: of the command.
    """
    every = [[_as_typed(word) for word in job.overrides] for job in jobs]
    common = set.intersection(*map(set, every)) if len(jobs) > 1 else set()
    named = []
    for words, job in zip(every, jobs, strict=True):
        typed = [word for word in words if word.partition("=")[0] not in WORKER_KEYS]
        own = " ".join(word for word in words if word not in common)
        named.append(SweepJob(own, command_line(["rlher", name, *typed]), job.config))
    return named


def _as_typed(override: str) -> str:
    """Return an override as one would type it: a recipe by its file or ``null``, not by its option in Hydra."""
    key, equals, value = override.partition("=")
    return f"{key}{equals}{typed_recipe(value) if key == 'recipe' else value}"
