"""Values that a config leaves open (null, auto) and a run needs: resolved from other values and the machine."""

from dataclasses import replace

from stable_baselines3.common.utils import get_device

from rlher.algos.compilation import find_compiler
from rlher.algos.precision import has_fast_bf16, is_bf16_faster
from rlher.config.training import DEFAULT_EVALUATIONS, TrainConfig
from rlher.training.process_plan import layer_sizes, process_plan

MIN_UPDATES = 10_000
"""Fewest updates that ``engine.compile=auto`` compiles for.

Compiling saves 1 to 2 ms per update, and costs 8 to 30 s, or 5 s if cached.
"""

LEARNING_STARTS = 1000
"""As in the recipes of RL Zoo with HER. With 100, SAC on parking-classic ended at 61 % in place of 99 (one seed)."""


def resolve_defaults(config: TrainConfig, from_checkpoint: bool = False) -> tuple[TrainConfig, list[str]]:
    """Replace the open values of a config by numbers.

    :param config: its environment is probed already.
    :param from_checkpoint: the run continues from a checkpoint, with the ``learning_starts`` that it began with.
    :return: the resolved config, and a line for each decision.
    """
    notes: list[str] = []
    algo = config.algo
    if not from_checkpoint:
        algo = replace(algo, learning_starts=_learning_starts(config, notes))
    if algo.gradient_steps is None:  # with SB3's default of 1, more environments mean fewer updates (SB3 #704)
        algo = replace(algo, gradient_steps=algo.train_freq * config.n_envs)
        if algo.gradient_steps != 1:
            notes.append(f"algo.gradient_steps={algo.gradient_steps}: one update per stored transition")
    plan = process_plan(config, on_cpu=get_device(config.device).type == "cpu")
    if config.vec_env == "auto" and plan.vec_env == "subproc":
        notes.append(
            "vec_env=subproc: environments run in worker processes; with engine.overlap they step during updates"
        )
    if config.eval.workers is None and plan.eval_workers > 1:
        notes.append(f"eval.workers={plan.eval_workers}: processes that evaluate while training continues")
    # A run of demonstrations alone may be made longer.
    total_timesteps = config.total_timesteps or TrainConfig.total_timesteps
    freq = config.eval.freq or max(total_timesteps // DEFAULT_EVALUATIONS, 1)
    evaluation = replace(config.eval, freq=freq, workers=plan.eval_workers)
    config = replace(config, algo=algo, threads=plan.threads, vec_env=plan.vec_env, eval=evaluation)
    compilation = _choose_compilation(config, notes)
    engine = replace(config.engine, compile=compilation, precision=_choose_precision(config, notes))
    return replace(config, engine=engine), notes


def _learning_starts(config: TrainConfig, notes: list[str]) -> int:
    """Return ``learning_starts``, with a note if it is not the value in the config.

    It is at least an episode of each environment, because before that there are few virtual goals.
    """
    steps, reason = config.algo.learning_starts, ""
    least = (config.env.max_episode_actions or 0) * config.n_envs
    if steps is None:
        steps, reason = min(LEARNING_STARTS, config.total_timesteps // 4), "by default 1000 or a quarter of the run"
    if steps < least:
        steps, reason = least, "an episode of each environment"
    if 0 < config.total_timesteps <= steps:
        steps, reason = config.total_timesteps // 2, f"half of the run, because {steps} steps leave none for updates"
    if reason:
        notes.append(f"algo.learning_starts={steps}: {reason}")
    return steps


def _choose_compilation(config: TrainConfig, notes: list[str]) -> str:
    """Return ``engine.compile`` resolved to on or off, with a note if the run has updates."""
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
    if updates:
        notes.append(note)
    return compilation


def _choose_precision(config: TrainConfig, notes: list[str]) -> str:
    """Return ``engine.precision`` resolved, with a note if the CPU computes in bf16."""
    precision, device = config.engine.precision, get_device(config.device)
    if precision == "auto":
        precision = "bf16" if is_bf16_faster(device, config.algo.batch_size, layer_sizes(config)) else "float32"
    if precision == "bf16" and device.type == "cpu":
        reason = "the CPU has units for it" if has_fast_bf16(device) else "slower than float32 here"
        notes.append(f"precision bf16: {reason}")
    return precision
