"""The threads and worker processes of a run.

By default, a run with several cores has environments in worker processes, at most one per core. Then updates run while
the environments step, and an environment that hangs or dies is replaced. Evaluations run in worker processes beside
training, one per core. A run with one core has no worker processes.
"""

from dataclasses import dataclass

from rlher.config.training import TrainConfig
from rlher.core.machine import available_cores
from rlher.core.nested import leaves

PRODUCTS_PER_THREAD = 2**25
"""Each torch thread needs this many multiplications per layer (batch x width²); with fewer, threads wait for each
other."""

MAX_EVAL_WORKERS = 8
"""Most evaluation processes by default; each takes some hundred megabytes."""


@dataclass(frozen=True)
class ProcessPlan:
    """How a run uses the cores: values of the keys ``threads``, ``vec_env`` and ``eval.workers``.

    :param vec_env: ``"subproc"``: environments run in worker processes; ``"dummy"``: in this process.
    """

    threads: int
    vec_env: str
    eval_workers: int


def process_plan(config: TrainConfig, on_cpu: bool) -> ProcessPlan:
    """Return the number of torch's threads, where environments run, and the number of evaluation workers.

    With overlap, each environment process gets a core and torch gets the rest. With ``threads=1``, which is set where
    runs share a machine, a run uses one core, unless its config asks for worker processes.

    :param on_cpu: whether the networks are on the CPU.
    """
    cores = 1 if config.threads == 1 else available_cores()
    products = config.algo.batch_size * max(layer_sizes(config), default=0) ** 2
    useful_threads = max(products // PRODUCTS_PER_THREAD, 1)
    vec_env = config.vec_env
    if vec_env == "auto":
        # With one environment on two cores, wide networks use both cores for updates.
        needs_both_cores = on_cpu and config.threads is None and cores == 2 and useful_threads >= 2
        is_useful = config.n_envs > 1 or (config.engine.overlap and not needs_both_cores)
        vec_env = "subproc" if cores > 1 and is_useful else "dummy"
    reserved = config.n_envs if vec_env == "subproc" and config.engine.overlap else 0
    threads = config.threads or max(min(useful_threads, cores - reserved), 1)
    eval_workers = config.eval.workers
    if eval_workers is None:
        # Where environments run in workers, there is at least one, so that a hanging evaluation is replaced too.
        eval_workers = min(cores, MAX_EVAL_WORKERS) if cores > 1 else int(vec_env == "subproc")
    return ProcessPlan(threads, vec_env, eval_workers)


def layer_sizes(config: TrainConfig) -> list[int]:
    """Return the sizes of the hidden layers of all networks; actor and critic may have different ones."""
    return leaves(config.algo.net_arch)
