"""The processes that evaluate a run: how many, and their early start; nothing here imports torch or gymnasium."""

from rlher.config.training import TrainConfig
from rlher.envs.fork_server import may_have_processes, start_fork_server, usable_cores, uses_processes

MAX_EVAL_WORKERS = 8
"""Most evaluation processes by default; each takes some hundred megabytes."""


def eval_workers(config: TrainConfig) -> int:
    """Return ``eval.workers``: by default one per core, none where the run may use only one.

    Where training environments have processes of their own, one evaluates, with the same protection against hanging.
    """
    if not may_have_processes():
        return 0
    if config.eval.workers is not None:
        return config.eval.workers
    cores = usable_cores(config)
    return min(cores, MAX_EVAL_WORKERS) if cores > 1 else int(uses_processes(config))


def start_server_early(config: TrainConfig) -> None:
    """Start the server of worker processes if the run needs it: its imports take as long as those of this process.

    To be called as soon as the config is known, before the modules that import torch.
    """
    if uses_processes(config) or eval_workers(config):
        start_fork_server()
