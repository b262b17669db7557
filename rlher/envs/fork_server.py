"""Whether a run needs worker processes, and what their server imports; nothing here imports torch or gymnasium."""

from rlher.config.training import TrainConfig
from rlher.core import fork_server

PRELOADED = ["stable_baselines3.common.vec_env.subproc_vec_env", "rlher.evaluation.worker_process"]
"""Modules that the fork server imports."""


def uses_processes(config: TrainConfig) -> bool:
    """Return whether training environments run in worker processes, which can be ended and replaced."""
    return config.n_envs > 1 or config.engine.overlap if config.vec_env == "auto" else config.vec_env == "subproc"


def start_fork_server() -> None:
    """Start the server from which worker processes are forked."""
    fork_server.start(PRELOADED)
