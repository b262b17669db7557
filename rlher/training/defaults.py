"""Defaults that depend on other values of a config, resolved before a run."""

from dataclasses import replace

from stable_baselines3.common.utils import get_device

from rlher.algos.compilation import choose_compilation
from rlher.algos.factory import uses_fast_update, without_fast_update
from rlher.algos.precision import choose_arithmetic
from rlher.config.algorithms import ActorCriticConfig
from rlher.config.her import DemosConfig
from rlher.config.training import EngineConfig, TrainConfig
from rlher.core.errors import UserError
from rlher.core.machine import available_cores
from rlher.envs.processes import eval_workers, uses_processes

DRY_RUN_STEPS = 400

PRODUCTS_PER_THREAD = 2**25
"""Multiplications of a layer (batch x width²) for each torch thread. With fewer, threads wait for each other, and an
environment or an evaluation gains more from the core."""

Resolved = tuple[TrainConfig, str]
"""A config with some values resolved, and a line that says so, which may be empty."""


def resolve_defaults(config: TrainConfig) -> tuple[TrainConfig, list[str]]:
    """Replace the open values of a config by numbers.

    :param config: its environment is probed already.
    :return: the resolved config, and a line for each decision.
    """
    notes = []
    for resolve in (
        _dry_run,
        _train_freq,
        _learning_starts,
        _gradient_steps,
        _engine,
        _evaluation,
        _cores,
        _checkpoint,
    ):
        config, note = resolve(config)
        notes += note.splitlines()
    return config, notes + _notes_without_effect(config)


def _dry_run(config: TrainConfig) -> Resolved:
    if not config.dry_run:
        return config, ""
    steps = min(config.total_timesteps, DRY_RUN_STEPS)
    shortened = replace(
        config,
        total_timesteps=steps,
        algo=replace(config.algo, learning_starts=steps // 4, batch_size=min(config.algo.batch_size, 32)),
        demos=replace(config.demos, pretrain_steps=min(config.demos.pretrain_steps, DRY_RUN_STEPS)),
        offline_updates=min(config.offline_updates, DRY_RUN_STEPS),
        eval=replace(config.eval, freq=max(steps // 2, 1), episodes=2, final_episodes=5),
    )
    return shortened, f"dry run: {steps} steps"


def _train_freq(config: TrainConfig) -> Resolved:
    """Turn rounds of episodes in several environments into rounds of steps, the only ones SB3 has there."""
    algo, n_envs, limit = config.algo, config.n_envs, config.env.episode_steps
    if algo.train_freq_unit == "step" or n_envs == 1:
        return config, ""
    if limit is None:
        raise UserError(
            f"algo.train_freq_unit=episode needs the length of an episode where n_envs={n_envs}; "
            "set env.max_episode_steps, or use train_freq_unit=step."
        )
    steps = -(-algo.train_freq * limit // n_envs)
    note = f"train_freq {steps} steps: {n_envs} environments play {algo.train_freq} episodes of at most {limit} steps"
    return replace(config, algo=replace(algo, train_freq=steps, train_freq_unit="step")), note


def _learning_starts(config: TrainConfig) -> Resolved:
    """Wait for an episode of each environment: before an episode has ended there are few goals to relabel with."""
    episode, total, note = config.env.episode_steps or 0, config.total_timesteps, ""
    steps = max(config.algo.learning_starts or 0, episode * config.n_envs)
    if total and steps >= total:
        steps = total // 2
        note = f"learning_starts {steps}: half of total_timesteps, to leave steps for learning"
    elif total and steps != config.algo.learning_starts:
        each = " per environment" if config.n_envs > 1 else ""
        note = f"learning_starts {steps}: one episode{each} of at most {episode} steps"
    return replace(config, algo=replace(config.algo, learning_starts=steps if total else 0)), note


def _gradient_steps(config: TrainConfig) -> Resolved:
    """Return one update per transition; with SB3's default of 1, more environments mean fewer updates (SB3 #704)."""
    algo = config.algo
    if algo.gradient_steps is not None:
        return config, ""
    steps = -1 if algo.train_freq_unit == "episode" else algo.train_freq * config.n_envs
    note = f"gradient_steps {steps}: one update per stored transition" if steps != 1 else ""
    return replace(config, algo=replace(algo, gradient_steps=steps)), note


def _engine(config: TrainConfig) -> Resolved:
    """Choose compilation, precision, matrix product and overlap."""
    algo, engine = config.algo, config.engine
    if not uses_fast_update(algo):
        return use_slow_updates(config)
    updates = _count_updates(config)
    compiled, compile_note = choose_compilation(engine.compile, updates)
    overlap = True if engine.overlap is None else engine.overlap
    engine = replace(engine, compile="on" if compiled else "off", overlap=overlap)
    engine, note = choose_arithmetic(engine, get_device(config.device), algo.batch_size, algo.net_arch)
    return replace(config, engine=engine), f"{compile_note if updates else ''}\n{note}".strip()


def use_slow_updates(config: TrainConfig, overlap: bool = False) -> Resolved:
    """Return the config of a model without the fast update, which Stable-Baselines3's own ``train`` updates."""
    engine = EngineConfig(compile="off", matmul="torch", precision="float32", overlap=overlap)
    note = f"updates by Stable-Baselines3's train: the fast update {without_fast_update(config.algo)}"
    return replace(config, engine=engine), note


def _count_updates(config: TrainConfig) -> int:
    algo = config.algo
    steps, updates = max(config.total_timesteps - (algo.learning_starts or 0), 0), algo.gradient_steps or 0
    per_round = algo.train_freq * config.n_envs
    if algo.train_freq_unit == "episode":
        per_round *= config.env.episode_steps or 1
    return (steps if updates == -1 else steps // per_round * updates) + config.offline_updates


def _cores(config: TrainConfig) -> Resolved:
    """Choose ``threads`` and ``vec_env``.

    Environments that step during updates have a core each. An exception is a single environment on two cores: it stays
    in this process if the updates are large enough for both.
    """
    algo, processes, cores = config.algo, uses_processes(config), available_cores()
    overlap, on_cpu = bool(config.engine.overlap), get_device(config.device).type == "cpu"
    may_stay = cores == 2 and config.n_envs == 1 and config.vec_env == "auto" and on_cpu
    threads = config.threads
    if threads is None:
        free = cores - config.n_envs if overlap and processes and not may_stay else cores
        wanted = algo.batch_size * max(algo.net_arch, default=0) ** 2 // PRODUCTS_PER_THREAD
        threads = max(min(free, wanted), 1)
        processes = processes and not (may_stay and threads == cores)
    note = "environments run in worker processes; each update runs while they step" if overlap and processes else ""
    return replace(config, threads=threads, vec_env="subproc" if processes else "dummy"), note


def _evaluation(config: TrainConfig) -> Resolved:
    workers, freq = eval_workers(config), config.eval.freq or max(config.total_timesteps // 20, 1)
    processes = f"up to {workers} processes" if workers > 1 else "a process"
    note = f"evaluations in {processes}, while training continues" if workers else ""
    return replace(config, eval=replace(config.eval, freq=freq, workers=workers)), note


def _checkpoint(config: TrainConfig) -> Resolved:
    if not config.her.copy_info_dict or config.checkpoint.every is None:
        return config, ""
    note = "no checkpoints: with her.copy_info_dict the buffer holds infos, which cannot be written without pickle"
    return replace(config, checkpoint=replace(config.checkpoint, every=None)), note


def _notes_without_effect(config: TrainConfig) -> list[str]:
    """Return a note for each key without effect: not an error, because a recipe may have set it."""
    notes = []
    typed = [name for name in ("energy_height", "energy_step_seconds") if getattr(config.her, name) is not None]
    if typed and config.her.priority != "energy":
        keys = " and ".join(f"her.{name}" for name in typed)
        notes.append(f"{keys} without effect: her.priority={config.her.priority}")
    if config.her.goal_mix and config.her.goal_selection_strategy != "mix":
        notes.append(f"her.goal_mix without effect: her.goal_selection_strategy={config.her.goal_selection_strategy}")
    algo = config.algo
    if isinstance(algo, ActorCriticConfig) and algo.noise != ActorCriticConfig.noise and not algo.action_noise:
        notes.append(f"algo.noise={algo.noise} without effect: algo.action_noise=0")
    if config.demos.path is None and config.demos.fraction != DemosConfig.fraction:
        notes.append("demos.fraction without effect: there are no demos=<dataset>")
    return notes
