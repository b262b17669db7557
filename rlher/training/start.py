"""Train a new run or resume one, for the command line and for Python.

The fork server of worker processes imports for seconds, as this process does. It is started before this process imports
torch, so that both import at the same time. So no import at the top of this file may import torch.
"""

from typing import TYPE_CHECKING

from rlher.config.training import LauncherConfig, TrainConfig, run_config
from rlher.core.errors import UserError
from rlher.core.workers import start_fork_server
from rlher.run.run_folder import RunFolder
from rlher.training.process_plan import process_plan

if TYPE_CHECKING:
    from rlher.run.result import RunResult


def train(config: LauncherConfig, command_line: str) -> "tuple[RunFolder, RunResult]":
    """Train a new run, see :func:`rlher.training.trainer.train_new_run`.

    :raises UserError: the config has values of the keys that tell a sweep where its runs are trained.
    """
    if (config.workers, config.launcher) != (LauncherConfig.workers, LauncherConfig.launcher):
        raise UserError("workers= and launcher= need the runs of a sweep; add -m and, for example, seed=0,1,2.")
    _start_fork_server(config)
    from rlher.training.trainer import train_new_run

    return train_new_run(run_config(config), command_line)


def resume(run: RunFolder, config: TrainConfig, command_line: str) -> "tuple[RunFolder, RunResult]":
    """Resume a run, see :func:`rlher.training.resume.resume`."""
    _start_fork_server(config)
    from rlher.training.resume import resume as resume_run

    return resume_run(run, config, command_line)


def _start_fork_server(config: TrainConfig) -> None:
    """Start the fork server if the run may have worker processes."""
    plan = process_plan(config, on_cpu=False)  # device=auto needs torch; the CPU never has more worker processes
    if plan.vec_env == "subproc" or plan.eval_workers:
        start_fork_server()
