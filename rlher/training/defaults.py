"""Values that a config leaves open (null, auto) and a run needs: resolved from other values and the machine."""

from dataclasses import replace
from operator import attrgetter

from stable_baselines3.common.utils import get_device

from rlher.algos.compilation import find_compiler
from rlher.algos.precision import has_fast_bf16, is_bf16_faster
from rlher.config.training import TrainConfig
from rlher.core.machine import available_cores
from rlher.core.nested import leaves
from rlher.training.processes import envs_in_workers, eval_workers

PRODUCTS_PER_THREAD = 2**25
"""Each torch thread needs this many multiplications per layer (batch x width²); with fewer, threads wait for each
other."""

MIN_UPDATES = 10_000
"""Fewest updates that ``engine.compile=auto`` compiles for.

Compiling saves 1 to 2 ms per update, and costs 8 to 30 s, or 5 s if cached.
"""

LEARNING_STARTS = 1000
"""As in the recipes of RL Zoo with HER. With 100, SAC on parking-classic ended at 61 % in place of 99 (one seed)."""


def resolve_defaults(original: TrainConfig, from_checkpoint: bool = False) -> tuple[TrainConfig, list[str]]:
    """Replace the open values of a config by numbers.

    :param original: the config; its environment is probed already.
    :param from_checkpoint: the run continues from a checkpoint, with the ``learning_starts`` that it began with.
    :return: the resolved config, and a line for each decision.
    """
    learning_starts, reason = (original.algo.learning_starts, "") if from_checkpoint else _learning_starts(original)
    algo = replace(original.algo, learning_starts=learning_starts)
    if algo.gradient_steps is None:  # with SB3's default of 1, more environments mean fewer updates (SB3 #704)
        algo = replace(algo, gradient_steps=algo.train_freq * original.n_envs)
    config, engine_notes = _choose_engine(replace(original, algo=algo))
    freq = config.eval.freq or max(config.total_timesteps // 20, 1)
    workers = eval_workers(config)
    threads, vec_env = _share_cores(config)
    config = replace(config, threads=threads, vec_env=vec_env, eval=replace(config.eval, freq=freq, workers=workers))
    notes = [f"algo.learning_starts={learning_starts}: {reason}"] if reason else []
    if original.algo.gradient_steps is None and algo.gradient_steps != 1:
        notes.append(f"algo.gradient_steps={algo.gradient_steps}: one update per stored transition")
    if original.vec_env == "auto" and vec_env == "subproc":
        notes.append(
            "vec_env=subproc: environments run in worker processes; with engine.overlap they step during updates"
        )
    if original.eval.workers is None and workers > 1:
        notes.append(f"eval.workers={workers}: processes that evaluate while training continues")
    if config.her.copy_info_dict and config.checkpoint.freq is not None:
        config = replace(config, checkpoint=replace(config.checkpoint, freq=None))
        notes.append(
            "checkpoint.freq=null: with her.copy_info_dict the buffer holds infos, which only pickle could write"
        )
    return config, [*notes, *engine_notes, *_keys_without_effect(config)]


def _learning_starts(config: TrainConfig) -> tuple[int, str]:
    """Return ``learning_starts``, and why it is not the value in the config.

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
    return steps, reason


def _choose_engine(config: TrainConfig) -> tuple[TrainConfig, list[str]]:
    """Choose compilation and precision; return a line for each choice."""
    algo = config.algo
    steps = max(config.total_timesteps - (algo.learning_starts or 0), 0)
    updates = steps // (algo.train_freq * config.n_envs) * (algo.gradient_steps or 0)
    compilation, compilation_note = _choose_compilation(config.engine.compile, updates)
    precision, precision_note = _choose_precision(config)
    engine = replace(config.engine, compile=compilation, precision=precision)
    notes = [compilation_note if updates else "", precision_note]
    return replace(config, engine=engine), [note for note in notes if note]


def _choose_compilation(mode: str, updates: int) -> tuple[str, str]:
    """Return ``engine.compile`` resolved to on or off, and a line with the reason.

    :param updates: number of updates in the run.
    """
    if mode == "off":
        return "off", "losses not compiled"
    if mode == "auto" and updates < MIN_UPDATES:
        return "off", f"losses not compiled: {updates:,} updates are too few to gain from it; force engine.compile=on"
    compiler = find_compiler()
    if compiler is None:
        return "off", "losses not compiled: no C++ compiler found"
    return "on", f"losses compiled with {compiler}, which takes half a minute the first time"


def _choose_precision(config: TrainConfig) -> tuple[str, str]:
    """Return ``engine.precision`` resolved, and a line if the CPU computes in bf16."""
    precision, device = config.engine.precision, get_device(config.device)
    if precision == "auto":
        precision = "bf16" if is_bf16_faster(device, config.algo.batch_size, _layer_sizes(config)) else "float32"
    if precision == "float32" or device.type != "cpu":
        return precision, ""
    reason = "the CPU has units for it" if has_fast_bf16(device) else "slower than float32 here"
    return precision, f"precision bf16: {reason}"


def _layer_sizes(config: TrainConfig) -> list[int]:
    """Return the sizes of the hidden layers of all networks; actor and critic may have different ones."""
    net_arch = config.algo.policy_kwargs.get("net_arch", config.algo.net_arch)
    return [size for size in leaves(net_arch) if isinstance(size, int)]  # building the model refuses other values


def _share_cores(config: TrainConfig) -> tuple[int, str]:
    """Return ``threads`` and ``vec_env``.

    With overlap, each environment process gets a core and torch gets the rest. On two cores with one environment, wide
    networks use both cores for updates, so the environment stays in this process.
    """
    vec_env = "subproc" if envs_in_workers(config) else "dummy"
    if config.threads is not None:
        return config.threads, vec_env
    cores = available_cores()
    products = config.algo.batch_size * max(_layer_sizes(config), default=0) ** 2
    useful = max(products // PRODUCTS_PER_THREAD, 1)
    is_single = config.n_envs == 1 and config.vec_env == "auto"
    if is_single and cores == 2 and get_device(config.device).type == "cpu":
        threads = min(useful, 2)
        return threads, "dummy" if threads == 2 else vec_env
    reserved = config.n_envs if vec_env == "subproc" and config.engine.overlap else 0
    return max(min(useful, cores - reserved), 1), vec_env


def _keys_without_effect(config: TrainConfig) -> list[str]:
    """Return a note for each key without effect. It is not an error, because a recipe may have set it."""
    strategy = config.her.goal_selection_strategy
    conditions = [
        ("demos.fraction", "demos.path", config.demos.path is not None),
        ("her.priority_kwargs", "her.priority", config.her.priority != "uniform"),
        ("her.goal_mix", "her.goal_selection_strategy", strategy == "mix"),
        ("her.goal_selection_kwargs", "her.goal_selection_strategy", strategy == "mix" or ":" in strategy),
    ]
    return [
        f"{key} without effect: {other_key}={attrgetter(other_key)(config)}"
        for key, other_key, has_effect in conditions
        if not has_effect and attrgetter(key)(config) != attrgetter(key)(TrainConfig())
    ]
