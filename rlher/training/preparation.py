"""Prepare a training run: check its config, and build its environments and model."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path

import torch as th
from stable_baselines3.common.callbacks import BaseCallback

from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.config.training import RunConfig
from rlher.core.rng import torch_threads
from rlher.core.user_code import instantiate
from rlher.envs.contract import check_or_raise
from rlher.envs.rebuildable_vec_env import RebuildableVecEnv
from rlher.envs.vec_env import make_vec_env
from rlher.run import lookup, model_file
from rlher.run.build_model import build_model, require_supported_actions, require_usable_device
from rlher.run.run_folder import CHECKPOINTS_FOLDER
from rlher.training import checkpoint_folder
from rlher.training.auto_values import resolve_auto_values
from rlher.training.learning_from_demonstrations import load_demonstrations
from rlher.training.loggers import require_tracker


@dataclass(frozen=True)
class TrainingSetup:
    """The config, model and callbacks of a training run; the model has the environments.

    :param config: config with resolved ``auto`` and null values.
    :param notes: what is printed before training, a line each.
    :param callbacks: the user's, from the key ``callbacks``.
    :param start_time: monotonic time at which it was started.
    """

    config: RunConfig
    model: OffPolicyAlgorithm
    notes: list[str]
    callbacks: list[BaseCallback]
    start_time: float


@contextmanager
def prepare(config: RunConfig, is_resumed: bool = False) -> Iterator[TrainingSetup]:
    """Check a config and build its environments and model, which are closed when the block ends. Write nothing.

    :param is_resumed: a checkpoint will be loaded. It replaces the model of ``init_from`` and holds the demonstrations,
        so neither is read. The properties of the environment stay those that the run began with.
    :raises UserError: the config cannot be trained.
    """
    start_time = time.monotonic()
    working_folder = Path.cwd()
    require_usable_device(config.device)
    require_tracker(config.logger)
    initial = _initial_model_path(config) if config.init_from and not is_resumed else None
    callbacks = [instantiate("callbacks", entry, BaseCallback) for entry in config.callbacks]

    checked = check_or_raise(config.env)
    if not is_resumed:
        config = replace(config, env=checked.config)
    config = resolve_auto_values(config, is_resumed)

    build = partial(make_vec_env, config.env, config.n_envs, vec_env_type=config.vec_env)
    rebuildable = RebuildableVecEnv(build, config.seed, config.env.max_restarts, config.checkpoint.freq is not None)
    with torch_threads(config.threads or 1), _flushed_denormals(), closing(rebuildable) as envs:
        require_supported_actions(config.algo.name, envs.action_space)
        os.chdir(working_folder)  # an environment may have left it
        model = build_model(config, envs)
        if initial is not None:
            model_file.load_parameters(initial, model)
        warnings = [finding.message for finding in checked.findings if finding.level == "warning"]
        notes = [*warnings, *_model_notes(config, model)]
        if config.demos.path is not None and not is_resumed:
            notes.append(load_demonstrations(config, model))
        yield TrainingSetup(config, model, notes, callbacks, start_time)


@contextmanager
def _flushed_denormals() -> Iterator[None]:
    """Let torch compute with zeros in place of subnormal numbers within the block."""
    # Adam's moments of inputs that are always zero, such as an unused goal part, decay to subnormal numbers: 6x slower.
    th.set_flush_denormal(True)
    try:
        yield
    finally:
        th.set_flush_denormal(False)


def _initial_model_path(config: RunConfig) -> Path:
    """Return the model file that ``init_from`` names, which may not exist; of a run, its last model.

    :raises UserError: there is no such run.
    """
    path = Path(config.init_from or "")
    if path.suffix == ".zip":
        return path
    run = lookup.open_run(config.init_from, config.logs, trust_code=True)  # only its weights are read
    checkpoints = checkpoint_folder.newest_first(run.folder / CHECKPOINTS_FOLDER)
    saved = [checkpoint / checkpoint_folder.MODEL_FILE for checkpoint in checkpoints]
    paths = [run.model_path("last"), *saved, run.model_path("best")]  # a run that was killed has no last model
    return next((path for path in paths if path.exists()), paths[0])


def _model_notes(config: RunConfig, model: OffPolicyAlgorithm) -> list[str]:
    """Return the lines on device, updates, target bounds and the buffer."""
    notes = [f"device {model.device}"]
    if model.compiles_losses:
        notes.append("losses are compiled, which takes half a minute the first time")
    if model.target_q_bounds:
        low, high = model.target_q_bounds
        notes.append(f"target Q in [{-inf if low is None else low:g}, {inf if high is None else high:g}]")
    if config.total_timesteps and config.algo.learning_starts:
        notes.append(f"first update after {config.algo.learning_starts:,} steps")
    if stored := min(config.algo.buffer_size, config.total_timesteps):
        size = stored * model.replay_buffer.storage.layout.transition_bytes
        notes.append(f"replay buffer of up to {stored:,} transitions, {size / 1e6:,.2f} MB")
    return notes
