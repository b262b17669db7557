"""Values that are ``auto`` or null in a config and that a run needs: resolved from other values and the machine.

By default, a run with several cores has environments in worker processes, at most one per core. Then updates run while
the environments step, and an environment that hangs or dies is replaced. Evaluations run in worker processes beside
training, one per core. A run with one core has no worker processes.
"""

import math
import os
import shutil
from dataclasses import replace

from stable_baselines3.common.utils import get_device

from rlher.algos.precision import is_bf16_faster
from rlher.config.training import DEFAULT_N_EVALUATIONS, RunConfig
from rlher.core.console import warn
from rlher.core.machine import available_cores
from rlher.core.nested import leaves

MIN_UPDATES = 10_000
"""Fewest updates that ``engine.compile=auto`` compiles for.

Compiling saves 1 to 2 ms per update, and costs 8 to 30 s, or 5 s if cached.
"""

LEARNING_STARTS = 1000
"""As in the recipes of RL Zoo with HER. With 100, SAC on parking-classic ended at 61 % in place of 99 (one seed)."""

PRODUCTS_PER_THREAD = 2**25
"""Each torch thread needs this many multiplications per layer (batch x width²); with fewer, threads wait for each
other."""

MAX_EVAL_WORKERS = 8
"""Most evaluation processes by default; each takes some hundred megabytes."""


def resolve_auto_values(config: RunConfig, is_resumed: bool = False) -> RunConfig:
    """Return a config in which the values that are ``auto`` or null are resolved.

    :param config: its environment is probed already.
    :param is_resumed: the run continues from a checkpoint, with the ``learning_starts`` that it began with.
    """
    algo = config.algo
    if not is_resumed:
        algo = replace(algo, learning_starts=_learning_starts(config))
    if algo.gradient_steps is None:  # with SB3's default of 1, more environments mean fewer updates (SB3 #704)
        algo = replace(algo, gradient_steps=algo.train_freq * config.n_envs)
    # A run of demonstrations alone may be made longer.
    total_timesteps = config.total_timesteps or RunConfig.total_timesteps
    freq = config.eval.freq or max(total_timesteps // DEFAULT_N_EVALUATIONS, 1)
    config = _assign_cores(replace(config, algo=algo, eval=replace(config.eval, freq=freq)))
    return replace(
        config, engine=replace(config.engine, compile=_resolve_compile(config), precision=_resolve_precision(config))
    )


def _learning_starts(config: RunConfig) -> int:
    """Return ``learning_starts``: at least an episode of each environment, before which there are few virtual goals."""
    steps = config.algo.learning_starts
    if steps is None:
        steps = min(LEARNING_STARTS, config.total_timesteps // 4)
    episode_steps = math.ceil((config.env.max_episode_steps or 0) / config.env.action_repeat)
    steps = max(steps, episode_steps * config.n_envs)
    leaves_updates = config.total_timesteps > steps or not config.total_timesteps
    return steps if leaves_updates else config.total_timesteps // 2


def _assign_cores(config: RunConfig) -> RunConfig:
    """Set the number of torch's threads, where environments run, and the number of evaluation workers.

    With overlap, each environment process gets a core and torch gets the rest. With ``threads=1``, which is set where
    runs share a machine, a run uses one core, unless its config asks for worker processes.
    """
    cores = 1 if config.threads == 1 else available_cores()
    width = max(leaves(config.algo.net_arch), default=0)  # actor and critic may have different ones
    useful_threads = max(config.algo.batch_size * width**2 // PRODUCTS_PER_THREAD, 1)
    vec_env = config.vec_env
    if vec_env == "auto":
        # With one environment on two cores, wide networks use both cores for updates.
        on_cpu = get_device(config.device).type == "cpu"
        needs_both_cores = on_cpu and config.threads is None and cores == 2 and useful_threads >= 2
        is_useful = config.n_envs > 1 or (config.engine.overlap and not needs_both_cores)
        vec_env = "subproc" if cores > 1 and is_useful else "dummy"

    reserved = config.n_envs if vec_env == "subproc" and config.engine.overlap else 0
    threads = config.threads or max(min(useful_threads, cores - reserved), 1)
    workers = config.eval.workers
    if workers is None:
        # Where environments run in workers, there is at least one, so that a hanging evaluation is replaced too.
        workers = min(cores, MAX_EVAL_WORKERS) if cores > 1 else int(vec_env == "subproc")
    return replace(config, threads=threads, vec_env=vec_env, eval=replace(config.eval, workers=workers))


def _resolve_compile(config: RunConfig) -> str:
    """Return ``engine.compile`` resolved to on or off."""
    algo, mode = config.algo, config.engine.compile
    steps = max(config.total_timesteps - (algo.learning_starts or 0), 0)
    updates = steps // (algo.train_freq * config.n_envs) * (algo.gradient_steps or 0)
    if mode == "off" or (mode == "auto" and updates < MIN_UPDATES):
        return "off"
    if shutil.which(os.environ.get("CXX", "g++")) is None:  # the compiler that torch calls
        warn("losses are not compiled (no C++ compiler found).")
        return "off"
    return "on"


def _resolve_precision(config: RunConfig) -> str:
    """Return ``engine.precision`` resolved to float32 or bf16."""
    if config.engine.precision != "auto":
        return config.engine.precision
    widths = leaves(config.algo.net_arch)
    return "bf16" if is_bf16_faster(get_device(config.device), config.algo.batch_size, widths) else "float32"
