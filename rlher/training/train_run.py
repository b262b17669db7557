"""Train a new run: what the command, the Python API, sweeps and searches call."""

import shutil

from rlher.config.training import RunConfig
from rlher.core import fork_server
from rlher.run import run_folder
from rlher.run.result import RunResult, ShouldStop
from rlher.run.run_folder import RunFolder
from rlher.training.messages import print_header


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
    fork_server.start_for_run(config.threads)
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
