"""Train an agent and keep everything in a run folder."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlher.config.commands import CompareConfig
from rlher.config.training import TrainConfig
from rlher.core import console
from rlher.run.run_folder import RunFolder
from rlher.training.start import start_training

if TYPE_CHECKING:
    from rlher.composition.compose import ComposedConfig


def run(config: TrainConfig, command_line: str, resumed: RunFolder | None = None) -> int:
    """Train, evaluate and write the run folder.

    :param resumed: the run to resume; None: a new one.
    :return: exit code: 0, 1 if the environment failed during the run, 130 after Ctrl-C.
    """
    run_folder, result = start_training(config, command_line, resumed)
    from rlher.training.result import print_result

    print_result(run_folder, result)
    return result.exit_code


def sweep(jobs: "Sequence[ComposedConfig]") -> int:
    """Train the runs of a sweep side by side and print the tables of `rlher compare`; with ``json`` a line per run.

    :return: the largest exit code of the runs, 130 after Ctrl-C.
    """
    from rlher.cli.commands import compare
    from rlher.core.safe_files import read_json
    from rlher.core.signals import EXIT_INTERRUPTED
    from rlher.jobs.sweep import train_sweep
    from rlher.run.lookup import is_finished
    from rlher.run.run_folder import RESULT

    runs, code = train_sweep(jobs)
    folders = [str(run.folder) for run in runs if run.folder and is_finished(run.folder)]
    if jobs[0].config.json:
        for run in runs:
            if run.folder:
                print(json.dumps({"run": str(run.folder), **read_json(run.folder / RESULT)}))
    elif folders and code != EXIT_INTERRUPTED:
        compare.run(CompareConfig(runs=folders), console.command_line(["rlher", "compare", *folders]))
    return code
