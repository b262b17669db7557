"""The content of a checkpoint: all that training needs to continue bit for bit, in files that are not pickled.

* ``model.zip``: a model file: networks with the statistics of the observations, optimizers, entropy coefficient.
* ``state.json``: counters, random number generators, the evaluations so far, and the values of the config keys that
  may not change.
* ``replay_buffer.npz``: arrays.
* ``env_actions.npz``: the actions since the environments were built, and the observations after them.
* ``best_model.zip``: the best model so far, if there is one.

:mod:`rlher.training.checkpoints.callback` writes the replay buffer and the best model.
"""

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlher.algos.training_loop import TrainingLoop
from rlher.core.rng import get_rng_state, set_rng_state
from rlher.core.safe_files import open_arrays
from rlher.run import model_file
from rlher.training.checkpoints.files import timesteps_of

MODEL = "model.zip"
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


def save(folder: Path, model: TrainingLoop, progress: dict[str, Any]) -> None:
    """Write the state of model and generators; the replay buffer and the environments are not part of it.

    :param progress: further JSON values for ``state.json``.
    """
    (folder / MODEL).write_bytes(model_file.to_bytes(model))
    state = {
        "counters": {name: getattr(model, name) for name in _scalars(model)},
        "recent": {name: list(getattr(model, name)) for name in EPISODE_BUFFERS},
        "updates_due": model.updates_due,
        "generators": {
            **get_rng_state(),
            "action_space": model.action_space.np_random.bit_generator.state,
            "random_actions": model.random_actions and model.random_actions.state_dict(),
        },
        **progress,
    }
    (folder / STATE).write_text(json.dumps(state, default=lambda value: value.tolist()))


def load(folder: Path, model: TrainingLoop) -> dict[str, Any]:
    """Load the state of the model, and return ``state.json``.

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
    return state


def restore_generators(saved: dict[str, Any], model: TrainingLoop) -> None:
    """Set every random number generator, and the random actions that are held, to a saved state.

    :param saved: ``"generators"`` of ``state.json``.
    """
    set_rng_state(saved)
    model.action_space.np_random.bit_generator.state = saved["action_space"]
    if model.random_actions is not None:
        model.random_actions.load_state_dict(saved["random_actions"])


def save_env_actions(folder: Path, actions: Sequence[np.ndarray], observations: dict[str, np.ndarray]) -> None:
    """Write the actions since the environments were built, and the observations after them."""
    played = np.stack(actions) if actions else np.zeros(0)
    np.savez(folder / "env_actions.npz", _actions=played, **observations)  # type: ignore[arg-type]


def load_env_actions(folder: Path, shape: tuple[int, ...]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the content of :func:`save_env_actions`.

    :param shape: of the actions of all environments in one step.
    :raises zipfile.BadZipFile, ValueError, KeyError: the content is invalid.
    """
    with open_arrays(folder / "env_actions.npz") as arrays:
        observations = dict(arrays)
    actions = observations.pop("_actions")
    if actions.size and actions.shape[1:] != shape:
        raise ValueError(f"the actions have shape {actions.shape[1:]}, not {shape}")
    return actions, observations


def _scalars(model: TrainingLoop) -> list[str]:
    return [name for name in SCALARS if hasattr(model, name)]
