"""A command as a Hydra application: Hydra composes the config of each job, then the jobs are run.

Hydra composes one job, or one per value of a sweep (``-m``). The jobs of a sweep of `rlher train` run side by side, see
:mod:`rlher.training.sweep`; jobs of other commands run one after the other.
"""

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import env_override
from hydra.types import RunMode
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf

from rlher import COMMAND
from rlher.cli.commands import Command
from rlher.cli.flags import NO_RECIPE, has_option, recipe_file
from rlher.cli.messages import hydra_errors_as_user_errors
from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import ENV_SCHEMAS
from rlher.config.key import to_object
from rlher.config.tuning import SweepJob
from rlher.core.console import command_line, redact
from rlher.core.errors import UserError
from rlher.core.signals import INTERRUPTED

PRINT_FLAGS = {"--cfg", "-c", "--info", "-i"}
"""Hydra's flags that print the config."""
WORKER_KEYS = ("workers", "launcher", "ray_address")
COMPOSE_ERRORS = (yaml.YAMLError, TypeError, ValueError, AttributeError, AssertionError, RecursionError)
"""What Hydra and OmegaConf raise for invalid input besides their own exceptions."""


@dataclass(frozen=True)
class Job:
    """A config that Hydra composed.

    :param overrides: the job's own, in which a sweep has become single values.
    """

    overrides: list[str]
    config: Any
    in_sweep: bool

    def command(self, name: str) -> str:
        """Return the command line of this job alone."""
        words = [_typed(word) for word in self.overrides if word.partition("=")[0] not in WORKER_KEYS]
        return command_line(["rlher", name, *words])


def run(command: Command, argv: list[str], typed: list[str]) -> int:
    """Run all jobs of a command and return the largest exit code.

    :param argv: Hydra's command line, without the program.
    :param typed: the user's command line, without the program, for the run folder.
    :raises UserError: the config cannot be composed, or the only job cannot be run.
    """
    jobs = compose(command, argv)
    with env_override({COMMAND: command_line(["rlher", *typed])}):
        if not jobs or not jobs[0].in_sweep:
            return command.run(jobs[0].config) if jobs else 0
        if command.sweep:
            return command.sweep(_sweep_jobs(command.name, jobs))
        codes = []
        for job in jobs:
            codes.append(command.run(job.config))
            if codes[-1] == INTERRUPTED:
                break
        return max(codes)


def compose(command: Command, argv: list[str]) -> list[Job]:
    """Let Hydra compose the jobs of a command, or print what its flags ask for.

    :raises UserError: the config cannot be composed.
    """
    jobs: list[Job] = []

    def collect(cfg: DictConfig) -> None:
        hydra_config = HydraConfig.get()
        if "recipe" in cfg and cfg.recipe is None:
            cfg.recipe = _selected_recipe(hydra_config.runtime)
        overrides: Any = OmegaConf.to_container(hydra_config.overrides.task)  # not resolved
        jobs.append(Job(overrides, cfg, in_sweep=hydra_config.mode is RunMode.MULTIRUN))

    _register(command)
    # HYDRA_FULL_ERROR makes Hydra raise errors instead of printing them.
    with hydra_errors_as_user_errors(), _own_globals(), env_override({"HYDRA_FULL_ERROR": "1"}), _argv(argv):
        try:
            hydra.main(version_base="1.3", config_path="pkg://rlher.conf", config_name=command.name)(collect)()
            # Not within collect, whose errors Hydra would report with the whole command line.
            return [replace(job, config=to_object(job.config, command.schema)) for job in jobs]
        except COMPOSE_ERRORS as error:
            of_no_env = [word for word in argv if word.startswith("env.")]
            if of_no_env and "NoneType" in str(error):  # env: null, as in conf/collect.yaml
                raise UserError(f"{of_no_env[0]} belongs to no environment; add env=<id>, or leave it out.") from error
            raise UserError(f"invalid configuration: {' '.join(str(error).split()).rstrip('.')}.") from error


def _register(command: Command) -> None:
    """Store the schemas of a command, of all algorithms and environments where the YAML files look for them."""
    store = ConfigStore.instance().store
    store(group="schema", name=command.name, node=command.schema)
    for name, algorithm in ALGORITHMS.items():
        store(group="schema/algo", name=name, node=algorithm.config)
    for name, env in ENV_SCHEMAS.items():
        store(group="schema/env", name=name, node=env)


def _sweep_jobs(name: str, jobs: list[Job]) -> list[SweepJob]:
    """Return the jobs with a name: their overrides that not all jobs have, all if there are no others."""
    common = set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()
    return [
        SweepJob(" ".join(word for word in job.overrides if word not in common), job.command(name), job.config)
        for job in jobs
    ]


def _typed(override: str) -> str:
    """Return an override as one would type it: a recipe by its file or ``null``, not by its option in Hydra."""
    key, _, value = override.partition("=")
    if key != "recipe":
        return override
    return f"recipe={'null' if value == NO_RECIPE else recipe_file(value) or value}"


def _selected_recipe(runtime: Any) -> str | None:
    """Return the name of the recipe in the composed config; the default ``<algo>-<env>`` may not exist.

    :param runtime: ``HydraConfig.get().runtime``.
    """
    name = runtime.choices.get("recipe")
    folders = [source.path for source in runtime.config_sources if source.schema == "file"]
    return name if name and has_option("recipe", name, folders) else None


@contextlib.contextmanager
def _own_globals() -> Iterator[None]:
    """Give Hydra new global objects within the block: a program that calls rlher may use Hydra itself."""
    before = Singleton._instances
    Singleton._instances = {
        kind: each for kind, each in before.items() if kind not in (GlobalHydra, HydraConfig, VersionBase)
    }
    try:
        yield
    finally:
        Singleton._instances = before


@contextlib.contextmanager
def _argv(argv: list[str]) -> Iterator[None]:
    """Set the command line that Hydra reads.

    Where Hydra prints the config, hide passwords; they may come from a config file or from ``${oc.env:...}``.
    """
    program, prints = sys.argv, not PRINT_FLAGS.isdisjoint(argv)
    printed = io.StringIO()
    sys.argv = [program[0], *(redact(word) if prints else word for word in argv)]
    try:
        with contextlib.redirect_stdout(printed if prints else sys.stdout):
            yield
    finally:
        sys.argv = program
        print("\n".join(redact(line) for line in printed.getvalue().split("\n")), end="")
