"""Start or resume a run; which parts of a run use worker processes.

By default, environments run in worker processes, at most one per core, if there is more than one environment or core.
Then updates run while the environments step, and an environment that hangs or dies is replaced. Evaluations run in
worker processes beside training, one per core.

Nothing here imports torch, so that the fork server starts before this process imports them.
"""

from typing import TYPE_CHECKING

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.core.machine import available_cores
from rlher.core.workers import start_fork_server

if TYPE_CHECKING:
    from rlher.run.run_folder import RunFolder
    from rlher.training.result import RunResult

WORKER_MODULES = ("rlher.core.garbage", "rlher.envs.vec_env", "rlher.evaluation.parallel_evaluation")
"""What the worker processes of a run import, in this order."""

MAX_EVAL_WORKERS = 8
"""Most evaluation processes by default; each takes some hundred megabytes."""


def start_training(
    config: TrainConfig, command: str, resumed: "RunFolder | None" = None
) -> "tuple[RunFolder, RunResult]":
    """Train a new run, or resume one, and return its folder and result.

    The fork server imports for seconds, as this process does. It is started before torch is imported here, so that both
    import at the same time.

    :param command: the command line, for the run folder.
    :param resumed: the run to resume; None: a new one.
    :raises UserError: the config cannot be trained; no run folder was created, or the one to resume is unchanged.
    """
    if uses_processes(config) or eval_workers(config):
        start_fork_server(WORKER_MODULES)
    if resumed is not None:
        from rlher.training.resume import resume

        return resume(resumed, config, command)
    from rlher.training.trainer import train_new_run

    if (config.workers, config.launcher) != (TrainConfig.workers, TrainConfig.launcher):
        raise UserError("workers= and launcher= need the runs of a sweep; add -m and, for example, seed=0,1,2.")
    return train_new_run(config, command)


def usable_cores(config: TrainConfig) -> int:
    """Return the cores that a run may use: one with ``threads=1``, which several runs on a machine should have."""
    return available_cores() if config.threads != 1 else 1


def uses_processes(config: TrainConfig) -> bool:
    """Return whether training environments run in worker processes, which can be ended and replaced."""
    if config.vec_env != "auto":
        return config.vec_env == "subproc"
    return config.n_envs > 1 or (config.engine.overlap and usable_cores(config) > 1)


def eval_workers(config: TrainConfig) -> int:
    """Return ``eval.workers``: by default one per core, none where the run may use only one.

    If training environments run in worker processes, at least one process evaluates, so that an evaluation is replaced
    as well if its environment hangs.
    """
    if config.eval.workers is not None:
        return config.eval.workers
    cores = usable_cores(config)
    return min(cores, MAX_EVAL_WORKERS) if cores > 1 else int(uses_processes(config))
