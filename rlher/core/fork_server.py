"""The fork server: a process that imports slow modules once. Workers are forked from it and start with the modules.

The server takes seconds to import torch and the environments, and so does the process that starts it. So commands start
the server before they import torch, and both import at the same time. The modules are texts here, because they belong
to packages above this one.
"""

import multiprocessing
from collections.abc import Sequence
from multiprocessing import forkserver, resource_tracker

from rlher.core.machine import available_cores
from rlher.core.signals import blocked_stop_signals

RUN_MODULES = ("rlher.envs.vec_env", "rlher.evaluation.parallel_evaluation")
"""What the workers of a run need."""

JOB_MODULES = (*RUN_MODULES, "rlher.training.trainer", "scipy.stats")
"""What workers that train whole runs need."""

SEARCH_MODULES = (*JOB_MODULES, "rlher.tuning.trial_runner", "alembic.command", "optuna.storages._rdb.models")
"""What the workers of a search need. With the last two, each worker opens its database in 0.1 instead of 0.5 s."""


def start(modules: Sequence[str] = ()) -> None:
    """Start the fork server if this process has none. The server imports modules in the background.

    :param modules: modules that the server imports. They have no effect if the server was started before.
    """
    multiprocessing.set_forkserver_preload(list(modules))
    resource_tracker.ensure_running()  # otherwise the fork server starts the tracker, which unblocks the signals
    with blocked_stop_signals():
        forkserver.ensure_running()


def start_for_run(threads: int | None) -> None:
    """Start the fork server if a run with this many torch threads has worker processes."""
    if threads != 1 and available_cores() > 1:  # a run on one core has workers only if its config says so
        start(RUN_MODULES)
