"""Which modules the fork server imports, so that workers start sooner.

The server imports for seconds, and so does the process that starts it. So :mod:`rlher.training.train`,
:mod:`rlher.training.resume` and the commands import torch only after they started the server, and both import at the
same time.
"""

from rlher.core.machine import available_cores
from rlher.core.workers import start_fork_server

WORKER_MODULES = ("rlher.envs.vec_env", "rlher.evaluation.parallel_evaluation")
"""What the workers of a run import."""

JOB_MODULES = (*WORKER_MODULES, "rlher.training.trainer", "sb3_contrib", "scipy.stats")
"""What the workers of a sweep import, which train runs."""

SEARCH_MODULES = (*JOB_MODULES, "rlher.tuning.trial_runner", "alembic.command", "optuna.storages._rdb.models")
"""What the workers of a search import. With the last two, each opens its database in 0.1 instead of 0.5 seconds."""


def start_fork_server_of_run(threads: int | None) -> None:
    """Start the fork server if a run with this many torch threads has worker processes."""
    if threads != 1 and available_cores() > 1:  # a run on one core has workers only if its config says so
        start_fork_server(WORKER_MODULES)
