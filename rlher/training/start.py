"""Start or resume a run.

Nothing here imports torch, so that the fork server starts before this process imports it.
"""

from typing import TYPE_CHECKING

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.core.workers import start_fork_server
from rlher.training.processes import envs_in_workers, eval_workers

RUN_MODULES = ("rlher.envs.vec_env", "rlher.evaluation.parallel_evaluation")
"""What the fork server imports for the workers of a run."""

if TYPE_CHECKING:
    from rlher.run.run_folder import RunFolder
    from rlher.training.result import RunResult


def train(config: TrainConfig, command: str) -> "tuple[RunFolder, RunResult]":
    """Train a new run, and return its folder and result.

    :param command: the command line, for the run folder.
    :raises UserError: the config cannot be trained; no run folder was created.
    """
    if (config.workers, config.launcher) != (TrainConfig.workers, TrainConfig.launcher):
        raise UserError("workers= and launcher= need the runs of a sweep; add -m and, for example, seed=0,1,2.")
    _start_fork_server_for(config)
    from rlher.training.trainer import train_new_run

    return train_new_run(config, command)


def resume(run: "RunFolder", config: TrainConfig, command: str) -> "tuple[RunFolder, RunResult]":
    """Continue a run, see :func:`rlher.training.resume.resume`."""
    _start_fork_server_for(config)
    from rlher.training import resume

    return resume.resume(run, config, command)


def _start_fork_server_for(config: TrainConfig) -> None:
    """Start the fork server if a run has worker processes.

    It imports for seconds, as this process does. It is started before torch is imported here, so that both import at
    the same time.
    """
    if envs_in_workers(config) or eval_workers(config):
        start_fork_server(RUN_MODULES)
