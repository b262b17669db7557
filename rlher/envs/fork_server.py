"""Whether a run needs worker processes, and what their server imports; nothing here imports torch or gymnasium."""

import multiprocessing

from rlher.config.training import TrainConfig
from rlher.core import fork_server
from rlher.core.cores import available_cores

PRELOADED = [
    "rlher.core.preload",
    "stable_baselines3.common.vec_env.subproc_vec_env",
    "rlher.evaluation.worker_process",
]
"""Modules that the fork server imports."""


def may_have_processes() -> bool:
    """Return whether this process may start others; a daemon may not."""
    return not multiprocessing.current_process().daemon


def usable_cores(config: TrainConfig) -> int:
    """Return the cores that a run may use: one with ``threads=1``, which several runs on a machine should have."""
    return available_cores() if config.threads != 1 and may_have_processes() else 1


def uses_processes(config: TrainConfig) -> bool:
    """Return whether training environments run in worker processes, which can be ended and replaced.

    :param config: with an open ``engine.overlap``, the answer may be yes where it is no in the end.
    """
    if config.vec_env != "auto":
        return config.vec_env == "subproc"
    return config.n_envs > 1 or (config.engine.overlap is not False and usable_cores(config) > 1)


def start_fork_server() -> None:
    """Start the server from which worker processes are forked."""
    fork_server.start(PRELOADED)
