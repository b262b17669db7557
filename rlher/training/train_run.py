"""Start a training run: what the command, the Python API, sweeps and searches call.

The fork server imports torch and the environments for seconds, and so does the process that starts it. So commands
start the server before they import torch, and both import at the same time.
"""

import shutil

from rlher.config.training import RunConfig
from rlher.core.machine import available_cores
from rlher.core.workers import start_fork_server
from rlher.run import run_folder
from rlher.run.result import RunResult, ShouldStop
from rlher.run.run_folder import RunFolder
from rlher.training.messages import print_header

RUN_MODULES = ("rlher.envs.vec_env", "rlher.evaluation.parallel_evaluation")
"""What the fork server imports for the workers of a run."""

JOB_MODULES = (*RUN_MODULES, "rlher.training.trainer", "scipy.stats")
"""What the fork server imports for workers that train whole runs."""


def start_fork_server_for_run(threads: int | None) -> None:
    """Start the fork server if a run with this many torch threads has worker processes."""
    if threads != 1 and available_cores() > 1:  # a run on one core has workers only if its config says so
        start_fork_server(RUN_MODULES)


def train_run(
    config: RunConfig, command_line: str, should_stop: ShouldStop | None = None
) -> tuple[RunFolder, RunResult]:
    """Train a new run and write everything into its run folder.

    :param command_line: the command line, for the run folder.
    :param should_stop: called with all rows after each evaluation; returns whether the run ends now, with the status
        ``"stopped"``. A run with this function has no final evaluation.
    :raises UserError: the config cannot be trained; nothing was written.
    :raises RunError, KeyboardInterrupt: as of :meth:`~rlher.training.trainer.Trainer.train`.
    """
    start_fork_server_for_run(config.threads)
    from rlher.training.preparation import prepare
    from rlher.training.trainer import Trainer

    with prepare(config) as setup:
        run = run_folder.create(setup.config, config, command_line)
        with run_folder.locked(run.folder):
            try:
                trainer = Trainer(run, setup, should_stop=should_stop)
                print_header(run, setup.notes)
            except BaseException:  # after Ctrl-C, too: without a result it would look like a run that was killed
                shutil.rmtree(run.folder, ignore_errors=True)
                raise
            return run, trainer.train()
