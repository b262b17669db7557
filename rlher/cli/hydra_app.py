"""A command as a Hydra application: composes its config and runs it once or, with ``-m``, once per job.

The jobs of `rlher train` are composed first and then trained side by side, see :mod:`rlher.tuning.sweep`.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import hydra
import yaml
from hydra._internal.hydra import Hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import env_override
from hydra.types import RunMode
from omegaconf import DictConfig

from rlher import COMMAND
from rlher.cli.commands import Command
from rlher.cli.config_files import has_option
from rlher.config import store
from rlher.config.key import to_object
from rlher.config.tuning import SweepJob
from rlher.core.console import command_line, redact, warn
from rlher.core.errors import EnvironmentFault, UserError
from rlher.core.nested import flatten
from rlher.core.signals import INTERRUPTED

PRINT_FLAGS = {"--cfg", "-c", "--info", "-i"}
"""Hydra's flags that print the config."""
COMPOSE_ERRORS = (yaml.YAMLError, TypeError, ValueError, AttributeError, AssertionError, RecursionError)
"""What Hydra and OmegaConf raise for invalid input besides their own exceptions."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C that the command has already reported."""


@dataclass(frozen=True)
class JobResult:
    """How a job ended.

    :param bug: an exception that is neither the user's nor the environment's fault.
    """

    exit_code: int = 0
    bug: Exception | None = None


class HydraApp:
    """Runs a command under Hydra and collects the results of its jobs."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.results: list[JobResult] = []
        self.jobs: list[tuple[list[str], str, Any]] = []
        """Overrides, command and config of each job that is not run yet."""
        self._process = os.getpid()

    def run(self, argv: list[str], typed: list[str]) -> int:
        """Run all jobs and return the largest exit code.

        :param argv: Hydra's command line, without the program.
        :param typed: the user's command line, without the program, for the run folder.
        :raises UserError: the config cannot be composed.
        """
        store.register(self.command.name, self.command.schema)
        # HYDRA_FULL_ERROR makes Hydra raise errors instead of printing them. COMMAND is read by the run folder:
        # sys.argv is Hydra's by then, and a launcher's worker process has another one.
        environment = {"HYDRA_FULL_ERROR": "1", COMMAND: command_line(["rlher", *typed])}
        with env_override(environment), _argv(argv), _composed_once(argv):
            try:
                hydra.main(version_base="1.3", config_path="pkg://rlher.conf", config_name=self.command.name)(
                    self.run_job
                )()
            except COMPOSE_ERRORS as error:
                raise UserError(f"invalid configuration: {' '.join(str(error).split()).rstrip('.')}.") from error
            if self.jobs and self.command.sweep:
                return self.command.sweep(_named(self.jobs))
        for result in self.results:
            if result.bug:
                raise result.bug
        return max((result.exit_code for result in self.results), default=0)

    def run_job(self, cfg: DictConfig) -> None:
        """Run one job and store its result; Hydra calls this with the composed config.

        :raises Exception: any error, if this is a worker process of a launcher, whose results would be lost.
        """
        in_worker = os.getpid() != self._process
        job = HydraConfig.get()
        if self.command.sweep and job.mode is RunMode.MULTIRUN and not in_worker:
            config = self._config(cfg)
            self.jobs.append((list(job.overrides.task), _job_command(config, job.runtime.choices), config))
            return
        try:
            result = JobResult(self.command.run(self._config(cfg)))
        except (UserError, EnvironmentFault) as error:
            if in_worker:
                raise
            warn(str(error))  # not raised, so that the other jobs of a sweep run
            result = JobResult(error.exit_code)
        except Exception as error:
            if in_worker:
                raise
            result = JobResult(
                bug=error
            )  # raised later, outside Hydra, which would print the command line with its passwords
        self.results.append(result)
        if result.exit_code == INTERRUPTED:
            raise Interrupted  # ends a sweep
        if in_worker and result.exit_code:
            raise EnvironmentFault("a run of this sweep failed; see above.")

    def _config(self, cfg: DictConfig) -> Any:
        if "recipe" in cfg and cfg.recipe is None:
            cfg.recipe = _selected_recipe(HydraConfig.get().runtime)
        return to_object(cfg, self.command.schema)


def _job_command(config: Any, choices: Mapping[str, str]) -> str:
    """Return the command line of one job of a sweep alone.

    :param choices: the option of each config group; the config does not name those of ``her`` and ``preset``.
    """
    from rlher.runs.run_command import single_run_command

    options = {group: choices[group] for group in ("her", "preset")}
    return single_run_command(os.environ[COMMAND], dict(flatten(asdict(config))) | options)


def _named(jobs: list[tuple[list[str], str, Any]]) -> list[SweepJob]:
    """Return the jobs with a name: their overrides that not all jobs have, all if there are no others."""
    common = set.intersection(*(set(overrides) for overrides, _, _ in jobs)) if len(jobs) > 1 else set()
    return [
        SweepJob(" ".join(word for word in overrides if word not in common), command, config)
        for overrides, command, config in jobs
    ]


def _selected_recipe(runtime: Any) -> str | None:
    """Return the name of the recipe in the composed config; the default ``<algo>-<env>`` may not exist.

    :param runtime: ``HydraConfig.get().runtime``.
    """
    name = runtime.choices.get("recipe")
    folders = [source.path for source in runtime.config_sources if source.schema == "file"]
    return name if name and has_option("recipe", name, folders) else None


@contextlib.contextmanager
def _composed_once(argv: list[str]) -> Iterator[None]:
    """Let Hydra compose the config once; it does so twice, first to read ``hydra.mode``, in a tenth of a second.

    That is needed only with an override of Hydra's own or other config files; otherwise the flag ``-m`` alone selects a
    sweep. ``get_mode`` is private: without it, a later Hydra would compose twice, with the same result.
    """
    sets_mode = any(
        word.startswith(("--config-", "-cd", "-cn")) or word.lstrip("+~").startswith(("hydra.", "hydra/"))
        for word in argv
    )
    if sets_mode or not hasattr(Hydra, "get_mode"):
        yield
        return
    get_mode = Hydra.get_mode
    Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = get_mode  # type: ignore[method-assign]


@contextlib.contextmanager
def _argv(argv: list[str]) -> Iterator[None]:
    """Set the command line that Hydra reads; where it prints the config, hide passwords."""
    program, prints = sys.argv, not PRINT_FLAGS.isdisjoint(argv)
    sys.argv = [program[0], *(redact(word) if prints else word for word in argv)]
    try:
        with _redacted_stdout() if prints else contextlib.nullcontext():
            yield
    finally:
        sys.argv = program


@contextlib.contextmanager
def _redacted_stdout() -> Iterator[None]:
    """Hide passwords in what is printed; they may come from a config file or from ``${oc.env:...}``."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        print("\n".join(redact(line) for line in printed.getvalue().split("\n")), end="")
