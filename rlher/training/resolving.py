"""Values that a config leaves open (null, auto) and a run needs: resolved from other values and the machine."""

from collections.abc import Callable
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Any

from stable_baselines3.common.utils import get_device

from rlher.algos.compilation import choose_compilation
from rlher.algos.precision import choose_precision
from rlher.config.training import TrainConfig
from rlher.core.machine import available_cores
from rlher.core.nested import flatten
from rlher.training.processes import eval_workers, uses_processes

PRODUCTS_PER_THREAD = 2**25
"""Multiplications of a layer (batch x width²) for each torch thread. With fewer, threads wait for each other, and an
environment or an evaluation gains more from the core."""

LEARNING_STARTS = 1000
"""As in the recipes of RL Zoo with HER. With 100, SAC on parking-classic ended at 61 % in place of 99 (one seed)."""

REASONS = {
    "algo.learning_starts": "by default 1000 or a quarter of the run; at least an episode of each environment",
    "algo.gradient_steps": "one update per stored transition",
    "vec_env": "environments run in worker processes; with engine.overlap they step during updates",
    "eval.workers": "processes that evaluate while training continues",
    "checkpoint.freq": "with her.copy_info_dict the buffer holds infos, which cannot be written without pickle",
}
"""Why the open value of a key is resolved as it is, for the notes."""

NEEDED_KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "demos.fraction": ("demos.path", lambda path: path is not None),
    "her.priority_kwargs": ("her.priority", lambda priority: priority != "uniform"),
    "her.goal_mix": ("her.goal_selection_strategy", lambda strategy: strategy == "mix"),
    "her.goal_selection_kwargs": ("her.goal_selection_strategy", lambda name: name == "mix" or ":" in name),
}
"""For a key that has an effect only with some values of another key: that other key, and a test of its value."""


def resolve_defaults(config: TrainConfig) -> tuple[TrainConfig, list[str]]:
    """Replace the open values of a config by numbers.

    :param config: its environment is probed already.
    :return: the resolved config, and a line for each decision.
    """
    given = config
    algo = replace(config.algo, learning_starts=_learning_starts(config))
    if algo.gradient_steps is None:  # with SB3's default of 1, more environments mean fewer updates (SB3 #704)
        algo = replace(algo, gradient_steps=algo.train_freq * config.n_envs)
    config, engine_notes = _choose_engine(replace(config, algo=algo))
    freq = config.eval.freq or max(config.total_timesteps // 20, 1)
    evaluation = replace(config.eval, freq=freq, workers=eval_workers(config))
    threads, vec_env = _share_cores(config)
    checkpoint = replace(config.checkpoint, freq=None) if config.her.copy_info_dict else config.checkpoint
    config = replace(config, threads=threads, vec_env=vec_env, eval=evaluation, checkpoint=checkpoint)
    return config, [*_changes(given, config), *engine_notes, *_keys_without_effect(config)]


def _changes(given: TrainConfig, resolved: TrainConfig) -> list[str]:
    """Return a line for each key of :data:`REASONS` that was resolved; none for what runs in this process."""
    before, after = dict(flatten(asdict(given))), dict(flatten(asdict(resolved)))
    changed = [key for key in REASONS if after[key] != before[key] and after[key] not in (0, 1, "dummy")]
    return [f"{key}={'null' if after[key] is None else after[key]}: {REASONS[key]}" for key in changed]


def _learning_starts(config: TrainConfig) -> int:
    """Return ``learning_starts``, at least an episode of each environment: before that there are few virtual goals."""
    given, total = config.algo.learning_starts, config.total_timesteps
    steps = min(LEARNING_STARTS, total // 4) if given is None else given
    steps = max(steps, (config.env.max_episode_actions or 0) * config.n_envs)
    return steps if steps < total else total // 2


def _choose_engine(config: TrainConfig) -> tuple[TrainConfig, list[str]]:
    """Choose compilation and precision; return a line for each choice."""
    algo, engine = config.algo, config.engine
    steps = max(config.total_timesteps - (algo.learning_starts or 0), 0)
    updates = steps // (algo.train_freq * config.n_envs) * (algo.gradient_steps or 0)
    engine, compile_note = choose_compilation(engine, updates)
    engine, note = choose_precision(engine, get_device(config.device), algo.batch_size, algo.net_arch)
    return replace(config, engine=engine), [line for line in (compile_note if updates else "", note) if line]


def _share_cores(config: TrainConfig) -> tuple[int, str]:
    """Return ``threads`` and ``vec_env``.

    Environments that step during updates have a core each. An exception is a single environment on two cores: it stays
    in this process if the updates are large enough for both.
    """
    algo, processes, cores = config.algo, uses_processes(config), available_cores()
    on_cpu = get_device(config.device).type == "cpu"
    may_stay = cores == 2 and config.n_envs == 1 and config.vec_env == "auto" and on_cpu
    threads = config.threads
    if threads is None:
        free = cores - config.n_envs if config.engine.overlap and processes and not may_stay else cores
        wanted = algo.batch_size * max(algo.net_arch, default=0) ** 2 // PRODUCTS_PER_THREAD
        threads = max(min(free, wanted), 1)
        processes = processes and not (may_stay and threads == cores)
    return threads, "subproc" if processes else "dummy"


def _keys_without_effect(config: TrainConfig) -> list[str]:
    """Return a note for each key without effect. It is not an error, because a recipe may have set it."""
    return [
        f"{key} without effect: {needed}={attrgetter(needed)(config)}"
        for key, (needed, has_effect) in NEEDED_KEYS.items()
        if attrgetter(key)(config) != attrgetter(key)(TrainConfig()) and not has_effect(attrgetter(needed)(config))
    ]
