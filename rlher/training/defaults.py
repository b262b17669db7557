"""Defaults that depend on other values of a config, resolved before a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch as th
from stable_baselines3.common.utils import get_device
from torch.nn import functional as F

from rlher.algos.compilation import choose_compilation
from rlher.algos.factory import choose_engine, uses_own_update
from rlher.algos.matmul import choose_matmul, linear
from rlher.algos.precision import choose_precision, has_bf16_units
from rlher.algos.threads import AVAILABLE, choose_threads
from rlher.config.algorithms import ActorCriticConfig
from rlher.config.her import DemosConfig
from rlher.config.training import CheckpointConfig, TrainConfig
from rlher.core.errors import UserError
from rlher.envs.processes import eval_workers, uses_processes

DRY_RUN_STEPS = 400

STAY_GAIN = 0.4e-3
"""Seconds that a second thread must save for each pass through a network, of which an update has four or more, to be
worth more than an environment in a process of its own: a step takes 1 to 2 ms in most simulators, and evaluations, too,
use the second core."""


def resolve_defaults(config: TrainConfig) -> tuple[TrainConfig, list[str]]:
    """Replace the open values of a config by numbers.

    :param config: its environment is probed already.
    :return: the resolved config, and a line for each decision.
    """
    notes = []
    if config.dry_run:
        config = _shorten(config)
        notes.append(f"dry run: {config.total_timesteps} steps")
    config, engine_note = _engine(config)
    config, freq_note = _train_freq(config)
    learning_starts, starts_note = _learning_starts(config)
    gradient_steps, steps_note = _gradient_steps(config)
    compiled, compile_note = _compile(config, learning_starts, gradient_steps)
    with _torch_threads(config.threads or 1):
        matmul, precision, arithmetic_notes = _arithmetic(config)
    config = replace(config, engine=replace(config.engine, compile=compiled, matmul=matmul, precision=precision))
    threads, vec_env, cores_notes = _cores(config)
    workers, workers_note = _eval_workers(config)
    checkpoint, checkpoint_note = _checkpoint(config)
    notes += [
        engine_note,
        freq_note,
        starts_note,
        steps_note,
        compile_note,
        *arithmetic_notes,
        *cores_notes,
        workers_note,
        checkpoint_note,
        *_notes_without_effect(config),
    ]
    resolved = replace(
        config,
        algo=replace(config.algo, learning_starts=learning_starts, gradient_steps=gradient_steps),
        eval=replace(config.eval, freq=config.eval.freq or max(config.total_timesteps // 20, 1), workers=workers),
        checkpoint=checkpoint,
        threads=threads,
        vec_env=vec_env,
    )
    return resolved, [note for note in notes if note]


def _shorten(config: TrainConfig) -> TrainConfig:
    steps = min(config.total_timesteps, DRY_RUN_STEPS)
    return replace(
        config,
        total_timesteps=steps,
        algo=replace(config.algo, learning_starts=steps // 4, batch_size=min(config.algo.batch_size, 32)),
        demos=replace(config.demos, pretrain_steps=min(config.demos.pretrain_steps, DRY_RUN_STEPS)),
        offline_updates=min(config.offline_updates, DRY_RUN_STEPS),
        eval=replace(config.eval, freq=max(steps // 2, 1), episodes=2, final_episodes=5),
    )


def _learning_starts(config: TrainConfig) -> tuple[int, str]:
    """Return at least one episode per environment: before an episode has ended there are few goals to relabel with."""
    episode = config.env.episode_steps or 0
    steps = max(config.algo.learning_starts or 0, episode * config.n_envs)
    if config.total_timesteps == 0:
        return 0, ""
    if steps >= config.total_timesteps:
        steps = config.total_timesteps // 2
        return steps, f"learning_starts {steps}: half of total_timesteps, to leave steps for learning"
    if steps != config.algo.learning_starts:
        each = " per environment" if config.n_envs > 1 else ""
        return steps, f"learning_starts {steps}: one episode{each} of at most {episode} steps"
    return steps, ""


def _engine(config: TrainConfig) -> tuple[TrainConfig, str]:
    """Return the config with the engine that runs, and which one it is unless it is the default."""
    engine = choose_engine(config.algo, config.engine)
    note = "update step of Stable-Baselines3" if engine.name == "sb3" else ""
    if engine.name != config.engine.name:
        note += ", which gSDE (algo.use_sde) needs"
    return replace(config, engine=engine), note


def _train_freq(config: TrainConfig) -> tuple[TrainConfig, str]:
    """Return the steps of rounds of episodes in several environments, which SB3 trains in rounds of steps only."""
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


def _gradient_steps(config: TrainConfig) -> tuple[int, str]:
    """Return one update per transition; with SB3's default of 1, more environments mean fewer updates (SB3 #704)."""
    if config.algo.gradient_steps is not None:
        return config.algo.gradient_steps, ""
    if config.algo.train_freq_unit == "episode":
        return -1, "gradient_steps -1: one update per stored transition"
    steps = config.algo.train_freq * config.n_envs
    return steps, f"gradient_steps {steps}: one update per stored transition" if steps > 1 else ""


def _compile(config: TrainConfig, learning_starts: int, gradient_steps: int) -> tuple[str, str]:
    if config.engine.name == "sb3":
        return "off", ""
    steps = max(config.total_timesteps - learning_starts, 0)
    per_round = config.algo.train_freq * config.n_envs
    if config.algo.train_freq_unit == "episode":
        per_round *= config.env.episode_steps or 1
    updates = steps if gradient_steps == -1 else steps // per_round * gradient_steps
    updates += config.offline_updates
    compiled, note = choose_compilation(config.engine.compile, updates)
    return "on" if compiled else "off", note if updates else ""


def _cores(config: TrainConfig) -> tuple[int, str, list[str]]:
    """Return what the cores are used for, ``threads`` and ``vec_env``, and lines that explain it.

    An environment that would leave the updates one core of two stays in this process if they gain more from both.

    :param config: with matrix product and precision chosen.
    """
    algo, processes, threads, notes = config.algo, uses_processes(config), config.threads, []
    if threads is None:
        device = get_device(config.device)
        may_stay = AVAILABLE == 2 and config.n_envs == 1 and config.vec_env == "auto" and device.type == "cpu"
        busy = config.n_envs if config.engine.overlap and processes and not may_stay else 0
        product = linear if config.engine.matmul == "onednn" else F.linear
        bf16 = config.engine.precision == "bf16" and device.type == "cpu" and has_bf16_units(device)
        min_gain = STAY_GAIN if may_stay and processes else 0.0
        threads, note = choose_threads(algo.batch_size, algo.net_arch, busy, product, bf16, min_gain)
        processes = processes and not (may_stay and threads == AVAILABLE)
        notes.append(note)
    if config.engine.overlap and processes:
        notes.append("updates while environments, in processes of their own, take a step")
    return threads, "subproc" if processes else "dummy", notes


@contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    before = th.get_num_threads()
    th.set_num_threads(number)
    try:
        yield
    finally:
        th.set_num_threads(before)


def _arithmetic(config: TrainConfig) -> tuple[str, str, list[str]]:
    """Return what multiplies matrices in the losses, their precision, and a line for each decision that counts."""
    engine, algo, device = config.engine, config.algo, get_device(config.device)
    if not uses_own_update(algo, engine.name):
        matmul = "torch" if engine.matmul == "auto" else engine.matmul
        precision = "float32" if engine.precision == "auto" else engine.precision
        engine = replace(engine, matmul=matmul, precision=precision)
    precision, precision_note = choose_precision(engine.precision, device, algo.batch_size, algo.net_arch)
    if precision == "bf16" and engine.matmul == "auto":
        return "torch", precision, [precision_note]
    matmul, matmul_note = choose_matmul(engine.matmul, device, algo.batch_size, algo.net_arch)
    return matmul, precision, [matmul_note, precision_note]


def _eval_workers(config: TrainConfig) -> tuple[int, str]:
    workers = eval_workers(config)
    processes = f"up to {workers} processes" if workers > 1 else "a process"
    return workers, f"evaluations in {processes}, while training continues" if workers else ""


def _checkpoint(config: TrainConfig) -> tuple[CheckpointConfig, str]:
    if config.her.copy_info_dict and config.checkpoint.every is not None:
        note = "no checkpoints: with her.copy_info_dict the buffer holds infos, which cannot be written without pickle"
        return replace(config.checkpoint, every=None), note
    return config.checkpoint, ""


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
