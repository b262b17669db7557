"""Start or continue a training run: what commands, the Python API and the jobs of a sweep call.

The fork server imports for seconds, and so does this process. Nothing here imports torch before the server is started,
so that both import at the same time.
"""

from typing import TYPE_CHECKING

from rlher.config.training import ResumeConfig, TrainConfig
from rlher.core.workers import start_fork_server
from rlher.training.process_plan import process_plan

WORKER_MODULES = ("rlher.core.gc_threshold", "rlher.envs.vec_env", "rlher.evaluation.parallel_evaluation")
"""What the workers of a run import."""

JOB_MODULES = (*WORKER_MODULES, "rlher.training.resume", "sb3_contrib", "scipy.stats")
"""What the workers of a sweep import, which train runs."""

if TYPE_CHECKING:
    from rlher.run.result import RunResult
    from rlher.run.run_folder import RunFolder


def train(config: TrainConfig, command_line: str) -> "tuple[RunFolder, RunResult]":
    """Train a new run; see :func:`rlher.training.trainer.train_new_run`."""
    _start_fork_server_if_needed(config)
    from rlher.training.trainer import train_new_run

    return train_new_run(config, command_line)


def resume(config: ResumeConfig, command_line: str) -> "tuple[RunFolder, RunResult]":
    """Continue a run; see :func:`rlher.training.resume.resume_run`."""
    _start_fork_server_if_needed(config)
    from rlher.training.resume import resume_run

    return resume_run(config, command_line)


def _start_fork_server_if_needed(config: TrainConfig) -> None:
    # Resolving device=auto would import torch. On a CPU there are no more worker processes than on a GPU.
    plan = process_plan(config, on_cpu=False)
    if plan.vec_env == "subproc" or plan.eval_workers:
        start_fork_server(WORKER_MODULES)
