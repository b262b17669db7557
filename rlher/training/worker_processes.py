"""Which parts of a run use worker processes, and the start of their fork server.

By default, environments run in worker processes, at most one per core, if there is more than one environment or core.
Then updates run while the environments step, and an environment that hangs or dies is replaced. Evaluations run in
worker processes beside training, one per core.

Nothing here imports torch, so that the fork server starts before this process imports it.
"""

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.core.machine import available_cores
from rlher.core.workers import start_fork_server

# What the fork server imports, so that worker processes start at once; a name that does not exist is ignored.
RUN_WORKER_MODULES = ("rlher.envs.vec_env", "rlher.evaluation.parallel_evaluation")
SWEEP_WORKER_MODULES = ("rlher.training.resume", "sb3_contrib", "scipy.stats")
TRIAL_WORKER_MODULES = ("rlher.tuning.trial_jobs", "sb3_contrib", "scipy.stats")

MAX_EVAL_WORKERS = 8
"""Most evaluation processes by default; each takes some hundred megabytes."""


def usable_cores(config: TrainConfig) -> int:
    """Return the cores that a run may use: all, or one with ``threads=1``, which is set where runs share a machine."""
    return 1 if config.threads == 1 else available_cores()


def envs_in_workers(config: TrainConfig) -> bool:
    """Return whether training environments run in worker processes, which can be ended and replaced."""
    if config.vec_env != "auto":
        return config.vec_env == "subproc"
    return config.n_envs > 1 or (config.engine.overlap and usable_cores(config) > 1)


def eval_workers(config: TrainConfig) -> int:
    """Return ``eval.workers``: by default one per core, none where the run may use only one.

    Environments in workers imply at least one evaluation worker, so that a hanging evaluation can be replaced too.
    """
    if config.eval.workers is not None:
        return config.eval.workers
    cores = usable_cores(config)
    return min(cores, MAX_EVAL_WORKERS) if cores > 1 else int(envs_in_workers(config))


def start_fork_server_for(config: TrainConfig) -> None:
    """Start the fork server if a run has worker processes.

    It imports for seconds, as this process does. It is started before torch is imported here, so that both import at
    the same time.
    """
    if envs_in_workers(config) or eval_workers(config):
        start_fork_server(RUN_WORKER_MODULES)


def require_no_sweep_keys(config: TrainConfig) -> None:
    """Raise UserError if a single run has values of the keys that tell a sweep where its runs are trained."""
    if (config.workers, config.launcher) != (TrainConfig.workers, TrainConfig.launcher):
        raise UserError("workers= and launcher= need the runs of a sweep; add -m and, for example, seed=0,1,2.")
