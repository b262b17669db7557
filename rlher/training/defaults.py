"""Values that a config leaves open (null, auto) and a run needs: resolved from other values and the machine.

By default, a run with several cores has environments in worker processes, at most one per core. Then updates run while
the environments step, and an environment that hangs or dies is replaced. Evaluations run in worker processes beside
training, one per core. A run with one core has no worker processes.
"""

import math
from dataclasses import replace

from stable_baselines3.common.utils import get_device

from rlher.algos.compilation import find_compiler
from rlher.algos.precision import has_fast_bf16, is_bf16_faster
from rlher.config.training import DEFAULT_EVALUATIONS, TrainConfig
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


def resolve_defaults(config: TrainConfig, from_checkpoint: bool = False) -> tuple[TrainConfig, list[str]]:
    """Replace the open values of a config by numbers.

    :param config: its environment is probed already.
    :param from_checkpoint: the run continues from a checkpoint, with the ``learning_starts`` that it began with.
    :return: the resolved config, and a line for each decision.
    """
    notes = []
    algo = config.algo
    if not from_checkpoint:
        learning_starts, reason = _learning_starts(config)
        algo = replace(algo, learning_starts=learning_starts)
        if reason:
            notes.append(f"algo.learning_starts={learning_starts}: {reason}")
    if algo.gradient_steps is None:  # with SB3's default of 1, more environments mean fewer updates (SB3 #704)
        algo = replace(algo, gradient_steps=algo.train_freq * config.n_envs)
        if algo.gradient_steps != 1:
            notes.append(f"algo.gradient_steps={algo.gradient_steps}: one update per stored transition")
    # A run of demonstrations alone may be made longer.
    total_timesteps = config.total_timesteps or TrainConfig.total_timesteps
    freq = config.eval.freq or max(total_timesteps // DEFAULT_EVALUATIONS, 1)
    given = config
    config = _assign_cores(replace(config, algo=algo, eval=replace(config.eval, freq=freq)))
    if given.vec_env == "auto" and config.vec_env == "subproc":
        notes.append(
            "vec_env=subproc: environments run in worker processes; with engine.overlap they step during updates"
        )
    if given.eval.workers is None and (config.eval.workers or 0) > 1:
        notes.append(f"eval.workers={config.eval.workers}: processes that evaluate while training continues")
    compilation, compilation_note = _choose_compilation(config)
    precision, precision_note = _choose_precision(config)
    notes += filter(None, [compilation_note, precision_note])
    return replace(config, engine=replace(config.engine, compile=compilation, precision=precision)), notes


def _learning_starts(config: TrainConfig) -> tuple[int, str]:
    """Return ``learning_starts``, and the reason if it is not the value in the config.

    It is at least an episode of each environment, because before that there are few virtual goals.
    """
    steps, reason = config.algo.learning_starts, ""
    least = math.ceil((config.env.max_episode_steps or 0) / config.env.action_repeat) * config.n_envs
    if steps is None:
        steps, reason = min(LEARNING_STARTS, config.total_timesteps // 4), "by default 1000 or a quarter of the run"
    if steps < least:
        steps, reason = least, "an episode of each environment"
    if 0 < config.total_timesteps <= steps:
        return config.total_timesteps // 2, f"half of the run, because {steps} steps leave none for updates"
    return steps, reason


def _assign_cores(config: TrainConfig) -> TrainConfig:
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


def _choose_compilation(config: TrainConfig) -> tuple[str, str | None]:
    """Return ``engine.compile`` resolved to on or off, and a note if the run has updates."""
    algo = config.algo
    steps = max(config.total_timesteps - (algo.learning_starts or 0), 0)
    updates = steps // (algo.train_freq * config.n_envs) * (algo.gradient_steps or 0)
    mode = config.engine.compile
    compilation = "off"
    if mode == "off":
        note = "losses not compiled"
    elif mode == "auto" and updates < MIN_UPDATES:
        note = f"losses not compiled: {updates:,} updates are too few to gain from it; force engine.compile=on"
    elif (compiler := find_compiler()) is None:
        note = "losses not compiled: no C++ compiler found"
    else:
        compilation = "on"
        note = f"losses compiled with {compiler}, which takes half a minute the first time"
    return compilation, note if updates else None


def _choose_precision(config: TrainConfig) -> tuple[str, str | None]:
    """Return ``engine.precision`` resolved, and a note if the CPU computes in bf16."""
    precision, device = config.engine.precision, get_device(config.device)
    if precision == "auto":
        widths = leaves(config.algo.net_arch)
        precision = "bf16" if is_bf16_faster(device, config.algo.batch_size, widths) else "float32"
    if precision != "bf16" or device.type != "cpu":
        return precision, None
    reason = "the CPU has units for it" if has_fast_bf16(device) else "slower than float32 here"
    return precision, f"precision bf16: {reason}"
