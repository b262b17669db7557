"""Train an agent and keep everything in a run folder."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlher.config.commands import CompareConfig
from rlher.config.training import TrainConfig
from rlher.config.tuning import SweepJob
from rlher.core.errors import UserError

if TYPE_CHECKING:
    from rlher.run.run_folder import RunFolder
    from rlher.training.result import RunResult

WORKER_MODULES = ("rlher.envs.vec", "rlher.evaluation.parallel_evaluation")
"""What the worker processes of a run import."""


def run(config: TrainConfig) -> int:
    """Train, evaluate and write the run folder.

    :return: exit code: 0, 1 if the environment failed during the run, 130 after Ctrl-C.
    """
    finished, result = train(config)
    from rlher.training.result import print_result

    print_result(finished, result)
    return result.exit_code


def train(config: TrainConfig) -> "tuple[RunFolder, RunResult]":
    """Train a single run.

    :raises UserError: the config cannot be trained; no run folder was created.
    """
    from rlher.training.processes import start_server_early

    start_server_early(config, WORKER_MODULES)
    from rlher.training import trainer

    if (config.workers, config.launcher) != (TrainConfig.workers, TrainConfig.launcher):
        raise UserError("workers= and launcher= need the runs of a sweep; add -m and, for example, seed=0,1,2.")
    return trainer.train(config)


def sweep(jobs: Sequence[SweepJob]) -> int:
    """Train the runs of a sweep side by side and print the tables of `rlher compare`; with ``json`` a line per run.

    :param jobs: the runs of the sweep.
    :return: the largest exit code of the runs, 130 after Ctrl-C.
    """
    from rlher.cli.commands import compare
    from rlher.core.safe_read import read_json
    from rlher.core.signals import INTERRUPTED
    from rlher.jobs.sweep import train_sweep
    from rlher.run.lookup import is_finished
    from rlher.run.run_folder import RESULT

    runs, code = train_sweep(jobs)
    folders = [str(run.folder) for run in runs if run.folder and is_finished(run.folder)]
    if jobs[0].config.json:
        for run in runs:
            if run.folder:
                print(json.dumps({"run": str(run.folder), **read_json(run.folder / RESULT)}))
    elif folders and code != INTERRUPTED:
        compare.run(CompareConfig(runs=folders))
    return code
