"""The content of a checkpoint: all that training needs to continue bit for bit, in files that are not pickled.

* ``model.zip``: a model file: networks with the statistics of the observations, optimizers, entropy coefficient.
* ``best_model.zip``: the best model so far, if there is one.
* ``replay_buffer.npz``: arrays.
* ``env_actions.npz``: the actions since the environments were built, and the observations after them.
* ``state.json``: counters, random number generators, the evaluations so far, and the values of the config keys that
  may not change.
"""

import json
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlher.algos.training_loop import GoalAlgorithm
from rlher.core.reading import open_arrays
from rlher.core.rng import get_rng_state, set_rng_state
from rlher.envs.restorable_vec_env import RestorableVecEnv
from rlher.run import model_file
from rlher.run.run_folder import MODELS
from rlher.training.checkpoints.checkpoint_files import timesteps_of
from rlher.training.evaluations import Evaluations

MODEL = "model.zip"
BEST_MODEL = MODELS["best"]
BUFFER = "replay_buffer.npz"
ENV_ACTIONS = "env_actions.npz"
STATE = "state.json"

SCALARS = (
    "num_timesteps",
    "_episode_num",
    "_n_updates",
    "_n_calls",
    "_current_progress_remaining",
    "exploration_rate",
)
"""Numbers that SB3's algorithms keep as attributes, each where the algorithm has it."""

EPISODE_BUFFERS = ("ep_info_buffer", "ep_success_buffer")
"""Returns, lengths and successes of the last episodes."""


@dataclass(frozen=True)
class EnvPoint:
    """A point to which the environments return: they are built again, and the actions are repeated.

    :param build_number: number of the build, see :class:`~rlher.envs.restorable_vec_env.RestorableVecEnv`.
    :param actions: (steps, n_envs, …) since they were built.
    :param observations: (n_envs, …) by key, after the actions.
    :param generators: the states of the random number generators, for :func:`restore_generators`.
    """

    build_number: int
    actions: np.ndarray
    observations: dict[str, np.ndarray]
    generators: dict[str, Any]


def save(
    folder: Path, model: GoalAlgorithm, envs: RestorableVecEnv, evaluations: Evaluations, run_state: dict[str, Any]
) -> None:
    """Write the files of a checkpoint into an empty folder.

    :param run_state: what the caller has to remember, for ``state.json``.
    """
    state = {
        "counters": {name: getattr(model, name) for name in _scalars(model)},
        "recent": {name: list(getattr(model, name)) for name in EPISODE_BUFFERS},
        "updates_due": model.updates_due,
        "generators": {
            **get_rng_state(),
            "action_space": model.action_space.np_random.bit_generator.state,
            "random_actions": model.random_actions and model.random_actions.state_dict(),
        },
        "build_number": envs.build_number,
        "evaluations": evaluations.state_dict(),
        **run_state,
    }
    (folder / STATE).write_text(json.dumps(state, default=lambda value: value.tolist()))
    (folder / MODEL).write_bytes(model_file.to_bytes(model))
    if evaluations.best_model is not None:
        (folder / BEST_MODEL).write_bytes(evaluations.best_model)
    model.replay_buffer.save(folder / BUFFER)  # type: ignore[union-attr]
    actions = np.stack(envs.actions) if envs.actions else np.zeros(0)
    observations: Any = model._last_obs
    np.savez(folder / ENV_ACTIONS, actions=actions, **{f"obs_{key}": value for key, value in observations.items()})


def load(
    folder: Path, model: GoalAlgorithm, envs: RestorableVecEnv, evaluations: Evaluations
) -> tuple[dict[str, Any], EnvPoint]:
    """Load model, replay buffer and evaluations; return ``state.json``, and the point to which ``envs`` return later.

    :raises Exception: the content is invalid; torch, NumPy and JSON raise exceptions of many kinds.
    """
    model_file.load_parameters(folder / MODEL, model)
    state: dict[str, Any] = json.loads((folder / STATE).read_text())
    for name in _scalars(model):
        setattr(model, name, type(getattr(model, name))(state["counters"][name]))
    if model.num_timesteps != timesteps_of(folder):
        raise ValueError("the counters do not match the name of the checkpoint")
    model.updates_due = int(state["updates_due"])
    for name in EPISODE_BUFFERS:
        setattr(model, name, deque(state["recent"][name], maxlen=model._stats_window_size))
    model.replay_buffer.load(folder / BUFFER)  # type: ignore[union-attr]
    evaluations.load_state_dict(state["evaluations"])
    best = folder / BEST_MODEL
    evaluations.best_model = best.read_bytes() if best.exists() else None
    with open_arrays(folder / ENV_ACTIONS) as arrays:
        actions = arrays["actions"]
        observations = {key.removeprefix("obs_"): arrays[key] for key in arrays if key != "actions"}
    shape = (envs.num_envs, *envs.action_space.shape)  # type: ignore[misc]
    if actions.size and actions.shape[1:] != shape:
        raise ValueError(f"the actions have shape {actions.shape[1:]}, not {shape}")
    restore_generators(state["generators"], model)  # once more after the actions; here it shows whether they are valid
    return state, EnvPoint(int(state["build_number"]), actions, observations, state["generators"])


def recorded_values(folder: Path) -> dict[str, Any]:
    """Return the values of the config keys that may not change.

    :raises Exception: the content is invalid.
    """
    return dict(json.loads((folder / STATE).read_text())["config"])


def restore_generators(saved: dict[str, Any], model: GoalAlgorithm) -> None:
    """Set every random number generator, and the random actions that are held, to a saved state.

    :param saved: ``"generators"`` of ``state.json``.
    """
    set_rng_state(saved)
    model.action_space.np_random.bit_generator.state = saved["action_space"]
    if model.random_actions and saved["random_actions"]:
        model.random_actions.load_state_dict(saved["random_actions"])


def _scalars(model: GoalAlgorithm) -> list[str]:
    return [name for name in SCALARS if hasattr(model, name)]
