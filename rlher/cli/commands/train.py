"""Train an agent and keep everything in a run folder."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlher.config.commands import CompareConfig
from rlher.config.training import TrainConfig
from rlher.core.console import command_line
from rlher.core.errors import UserError

if TYPE_CHECKING:
    from rlher.cli.composition import Composed
    from rlher.jobs.sweep import SweepRun
    from rlher.run.run_folder import RunFolder
    from rlher.training.result import RunResult

WORKER_MODULES = ("rlher.envs.vec", "rlher.evaluation.parallel_evaluation")
"""What the worker processes of a run import."""
SWEEP_KEYS = ("workers", "launcher", "ray_address")
"""Keys of a sweep that its runs do not have."""


def run(config: TrainConfig, command: str) -> int:
    """Train, evaluate and write the run folder.

    :return: exit code: 0, 1 if the environment failed during the run, 130 after Ctrl-C.
    """
    finished, result = start_training(config, command)
    from rlher.training.result import print_result

    print_result(finished, result)
    return result.exit_code


def start_training(config: TrainConfig, command: str) -> "tuple[RunFolder, RunResult]":
    """Train a single run.

    :param command: the command line, for the run folder.
    :raises UserError: the config cannot be trained; no run folder was created.
    """
    from rlher.training.processes import start_server_early

    start_server_early(config, WORKER_MODULES)
    from rlher.training import trainer

    if (config.workers, config.launcher) != (TrainConfig.workers, TrainConfig.launcher):
        raise UserError("workers= and launcher= need the runs of a sweep; add -m and, for example, seed=0,1,2.")
    return trainer.train_new_run(config, command)


def sweep(jobs: "Sequence[Composed]") -> int:
    """Train the runs of a sweep side by side and print the tables of `rlher compare`; with ``json`` a line per run.

    :return: the largest exit code of the runs, 130 after Ctrl-C.
    """
    from rlher.cli.commands import compare
    from rlher.core.safe_read import read_json
    from rlher.core.signals import INTERRUPTED
    from rlher.run.lookup import is_finished
    from rlher.run.run_folder import RESULT

    runs, code = train_side_by_side(jobs)
    folders = [str(run.folder) for run in runs if run.folder and is_finished(run.folder)]
    if jobs[0].config.json:
        for run in runs:
            if run.folder:
                print(json.dumps({"run": str(run.folder), **read_json(run.folder / RESULT)}))
    elif folders and code != INTERRUPTED:
        compare.run(CompareConfig(runs=folders))
    return code


def train_side_by_side(jobs: "Sequence[Composed]") -> "tuple[list[SweepRun], int]":
    """Train the runs of a sweep.

    :return: the runs without repetitions, and the largest exit code, 130 after Ctrl-C.
    """
    from rlher.jobs.sweep import SweepRun, train_sweep

    common = set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()
    composed = []
    for job in jobs:
        words = [word for word in job.overrides if word.partition("=")[0] not in SWEEP_KEYS]
        name = " ".join(word for word in job.overrides if word not in common)
        composed.append(SweepRun(name, command_line(["rlher", "train", *words]), job.config))
    return train_sweep(composed)
