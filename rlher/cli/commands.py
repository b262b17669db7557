"""The commands of `rlher`, see :data:`COMMANDS` and :class:`Command`.

The first line of a command's docstring is its summary in ``--help``. A command returns its exit code, or None for 0.
Commands import slow packages (torch, Stable-Baselines3, Optuna) inside their function, so that help and completion stay
fast.
"""

import functools
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rlher.config import command_configs
from rlher.config.key import Key, keys_of
from rlher.config.overrides import CONFIG_GROUPS
from rlher.config.plugins import Registry
from rlher.config.training import ResumeConfig, TrainConfig, all_run_keys
from rlher.config.tuning import OptimizeConfig
from rlher.core import fork_server
from rlher.core.console import UNLIMITED_WIDTH, output_width, print_line, print_note, text_table
from rlher.core.errors import EXIT_FAILED, UserError
from rlher.core.signals import EXIT_INTERRUPTED
from rlher.core.writing import display_path, output_file
from rlher.evaluation.metrics import format_summary
from rlher.run.result import Status
from rlher.run.run_folder import read_result
from rlher.training.messages import print_result
from rlher.training.resume import resume_config, resume_run
from rlher.training.train_run import train_run

FORMAT_BY_SUFFIX = {".tex": "latex", ".csv": "csv", ".md": "markdown", ".txt": "text"}
"""Formats of tables by the suffix of a file."""


@dataclass(frozen=True)
class Command:
    """A command of `rlher`.

    :param function: runs the command. It takes the config, and returns the exit code, or None for 0.
    :param schema: dataclass of the command's config keys.
    :param takes_command_line: ``function`` also takes the text of the command line, to write it into a file.
    :param sweep: runs a sweep (``-m``). It takes the overrides of all runs. Without it, the command has no ``-m``.
    :param make_config: makes the config from the values on the command line. Without it, the config is composed from
        ``schema``.
    """

    name: str
    function: Callable[..., int | None]
    schema: type
    takes_command_line: bool = False
    sweep: Callable[[Sequence[Mapping[str, Any]]], int] | None = None
    make_config: Callable[[Mapping[str, Any]], Any] | None = None

    @property
    def summary(self) -> str:
        """The command's line in ``rlher --help``."""
        return (self.function.__doc__ or self.name).splitlines()[0].rstrip(".")

    @property
    def flags(self) -> dict[str, Key]:
        """The command's keys by flag, such as ``--seed``. Keys of a section have no flag."""
        keys = keys_of(self.schema).values()
        return {"--" + key.name.replace("_", "-"): key for key in keys if "." not in key.name}

    @functools.cached_property
    def keys(self) -> dict[str, Key]:
        """The command's config keys and short forms, including the keys of every algorithm and environment."""
        keys = keys_of(self.schema)
        keys |= {"demos": keys["demos.path"]} if "demos.path" in keys else {}
        sections = tuple(f"{group}." for group in self.groups)
        return keys | {name: key for name, key in all_run_keys().items() if name.startswith(sections)}

    @property
    def positional(self) -> Key | None:
        """The key that words without a flag set, such as the run folder of ``rlher enjoy <run>``."""
        return next((key for key in keys_of(self.schema).values() if key.rules.positional), None)

    @property
    def groups(self) -> list[str]:
        """The command's config groups."""
        return [group for group in CONFIG_GROUPS if group in {field.name for field in fields(self.schema)}]


def train(config: TrainConfig, command_line: str) -> None:
    """Train an agent and keep everything in a run folder.

    :raises RunError: the run failed.
    :raises KeyboardInterrupt: the run was interrupted.
    """
    print_result(*train_run(config.for_single_run(), command_line))


def resume(config: ResumeConfig, command_line: str) -> None:
    """Continue a run that was killed or interrupted, or extend a finished one.

    :raises RunError, KeyboardInterrupt: as in :func:`train`.
    :raises UserError: the run is finished or is being trained, or an override sets a key that must not change.
    """
    print_result(*resume_run(config, command_line))


def sweep(overrides: Sequence[Mapping[str, Any]]) -> int:
    """Train the runs of a sweep side by side and print the tables of `rlher compare`; with ``json`` a line per run.

    :return: the largest exit code of the runs, 130 after Ctrl-C.
    """
    from rlher.jobs.sweep import train_sweep

    runs, interrupted = train_sweep(overrides)
    folders = [str(run.folder) for run in runs if run.status is Status.FINISHED]
    if runs[0].config.json:
        for run in runs:
            if run.folder:
                print(json.dumps({"run": str(run.folder), **read_result(run.folder)}))
    elif folders and not interrupted:
        compare(command_configs.CompareConfig(runs=folders))
    codes = [run.error.exit_code if run.error else 0 for run in runs]
    return EXIT_INTERRUPTED if interrupted else max(codes)


def optimize(config: OptimizeConfig, command_line: str) -> int:
    """Search for a better recipe with Optuna and test it on fresh seeds.

    :return: exit code: 0, or 1 if there is no comparison because re-runs failed.
    """
    if config.launcher == "local":
        fork_server.start(fork_server.SEARCH_MODULES)  # it works while this process imports torch
    from rlher.tuning.optimize import optimize as search

    result = search(config, command_line)
    if config.json:
        print(json.dumps({"folder": str(result.folder), **result.verdict}))
    else:
        for line in result.lines():
            print_line(line)
    if result.train_command:
        print_note(f"use it: {result.train_command}")
    return 0 if result.verdict["candidates"] else EXIT_FAILED


def evaluate(config: command_configs.EvaluateConfig) -> None:
    """Measure the success rate of a run, or of a pretrained agent.

    :raises UserError: the run does not exist, or has no readable model.
    """
    from rlher.evaluation.models import choose_model

    chosen = choose_model(config)
    print_note(f"{chosen.name}, seeds {config.seed}…{config.seed + config.episodes - 1}")
    summary = chosen.evaluate(config.episodes, config.seed)
    print(json.dumps(summary) if config.json else format_summary(summary))


def enjoy(config: command_configs.EnjoyConfig) -> None:
    """Watch a run's agent, a controller or demonstrations, in a window or as a video.

    :raises UserError: there is nothing to play, or no renderer.
    """
    from rlher.playing.enjoy import watch

    result, video = watch(config)
    if config.json:
        print(json.dumps(result))
    if video:
        print_note(f"video: {display_path(video.absolute())}")


def collect(config: command_configs.CollectConfig) -> int:
    """Collect demonstrations from an agent or a controller as a Minari dataset.

    :return: exit code: 0, or 130 after Ctrl-C. Then the episodes so far are written.
    :raises UserError: there is nothing to play, or nothing to write.
    """
    from rlher.playing.collect import collect_dataset

    result = collect_dataset(config)
    if config.json:
        print(json.dumps(result))
    else:
        rate = f"{result['successes']} of {result['played']} played ended in success"
        print_line(f"{result['episodes']} episodes, {result['steps']:,} steps, {rate}: {result['folder']}")
        print_note(f"learn from them: rlher train … {shlex.quote('demos=' + result['folder'])}")
    return EXIT_INTERRUPTED if result["interrupted"] else 0


def export(config: command_configs.ExportConfig) -> None:
    """Write a run's agent as a plain Stable-Baselines3 model, with a script and a model card."""
    from rlher.export import exporter

    result = exporter.export(config)
    print_line(json.dumps(result) if config.json else result["folder"])
    script = str(Path(result["folder"], "play.py"))
    print_note(f"play it: {shlex.join(['python', '-P', script])}")


def plot(config: command_configs.PlotConfig) -> None:
    """Draw the learning curves of runs."""
    from rlher.analysis import plotting

    for name in plotting.plot(config):
        print_line(name)


def compare(config: command_configs.CompareConfig) -> None:
    """Tabulate final success, probability of improvement and performance profiles of runs.

    :raises UserError: there are no runs, or a file has no format or cannot be written.
    """
    from rlher.analysis import comparison

    formats = {name: config.format or FORMAT_BY_SUFFIX.get(Path(name).suffix.lower(), "") for name in config.output}
    for name, format in formats.items():
        if not format:
            raise UserError(
                f"output={name!r} needs a name that ends in one of {', '.join(FORMAT_BY_SUFFIX)}, or a format=."
            )
    tables = comparison.all_tables(comparison.load_compared(config))

    def text(format: str, width: int) -> str:
        return "\n\n".join(table.format(format, width) for table in tables)

    if not config.output:
        print(text(config.format or "text", output_width()))
    for name, format in formats.items():
        with output_file(Path(name)) as temporary:
            temporary.write_text(text(format, UNLIMITED_WIDTH) + "\n", encoding="utf-8")
        print_line(name)


def report(config: command_configs.ReportConfig, command_line: str) -> None:
    """Write curves, tables, clips and versions of runs as one HTML page."""
    from rlher.analysis.report import write_report

    print_line(str(write_report(config, command_line)))


def check(config: command_configs.CheckConfig) -> int:
    """Check an environment against the contract of a goal environment.

    :return: exit code: 0 if training could start, else 1.
    :raises UserError: the environment does not exist or cannot be made.
    """
    from rlher.envs.contract import check_goal_env

    result = check_goal_env(config.env, config.seed)
    if config.json:
        print(json.dumps(result.to_dict()))
    else:
        print("\n".join(result.lines(output_width())))
    return EXIT_FAILED if result.errors else 0


def list_names(config: command_configs.ListConfig) -> None:
    """List the algorithms, environments, goal selection strategies or trained agents."""
    from rlher.cli.lists import LISTS

    lists = {name: list(rows()) for name, rows in LISTS.items() if config.what in (None, name)}
    if config.json:
        print(json.dumps(lists, indent=2))
    else:
        for rows in filter(None, lists.values()):
            cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row.values()] for row in rows]
            print(text_table(list(rows[0]), cells, output_width()) + "\n")


OWN_COMMANDS = [
    Command("check", check, command_configs.CheckConfig),
    Command("collect", collect, command_configs.CollectConfig),
    Command("compare", compare, command_configs.CompareConfig),
    Command("enjoy", enjoy, command_configs.EnjoyConfig),
    Command("evaluate", evaluate, command_configs.EvaluateConfig),
    Command("export", export, command_configs.ExportConfig),
    Command("list", list_names, command_configs.ListConfig),
    Command("optimize", optimize, OptimizeConfig, takes_command_line=True),
    Command("plot", plot, command_configs.PlotConfig),
    Command("report", report, command_configs.ReportConfig, takes_command_line=True),
    Command("resume", resume, ResumeConfig, takes_command_line=True, make_config=resume_config),
    Command("train", train, TrainConfig, takes_command_line=True, sweep=sweep),
]

COMMANDS = Registry("COMMANDS", {command.name: command for command in OWN_COMMANDS})
"""Every command by name."""
