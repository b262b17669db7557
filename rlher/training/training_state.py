"""Everything a training run is at one instant, as files without pickle, and put back bit for bit.

``weights.pt``: tensors, read by ``torch.load(weights_only=True)``: networks, optimisers, entropy coefficient, torch's
generators. ``state.json``: counters, the other generators, the history of evaluations. ``normalizer.npz`` and
``buffer/``: arrays. ``episodes.npz``, where the checkpoint is no barrier: the actions since the last one, by which the
environments are brought to where they were, and the observations they must then show.
"""

import json
import random
from collections import deque
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.save_util import recursive_getattr

from rlher.core.arrays import stored_arrays
from rlher.envs.normalize import GoalNormalize
from rlher.runs.checkpoint_store import timesteps_of
from rlher.runs.model_file import SETTING, load_tensors

COUNTERS = (
    "num_timesteps",
    "_episode_num",
    "_n_updates",
    "_n_calls",
    "_current_progress_remaining",
    "exploration_rate",
)
"""Numbers that an algorithm of SB3 keeps beside its tensors, each where it has it."""

RECENT = ("ep_info_buffer", "ep_success_buffer")


def save(folder: Path, model: OffPolicyAlgorithm, normalizer: GoalNormalize | None, more: dict[str, Any]) -> None:
    """Write what the model, its generators and its normaliser are; the buffer and the environments are not in it.

    :param more: JSON values to keep with it.
    """
    th.save({**_tensors(model), "generators": _torch_generators()}, folder / "weights.pt")
    state = {
        "counters": {name: getattr(model, name) for name in _counters(model)},
        "recent": {name: list(getattr(model, name)) for name in RECENT},
        "generators": _generators(model),
        **more,
    }
    (folder / "state.json").write_text(json.dumps(state, default=lambda number: number.item()))
    if normalizer is not None:
        np.savez(folder / "normalizer.npz", **normalizer.state())  # type: ignore[arg-type]


def load(folder: Path, model: OffPolicyAlgorithm, normalizer: GoalNormalize | None) -> dict[str, Any]:
    """Put back what learns, and return ``state.json``, with what :func:`set_generators` takes as ``generators``.

    :raises Exception: it holds something else; of many kinds, as torch, NumPy and JSON have their own.
    """
    tensors = load_tensors(folder / "weights.pt", model.device)
    model.set_parameters(tensors["parameters"], exact_match=True, device=model.device)
    for name in _variables(model):
        recursive_getattr(model, name).data.copy_(tensors["variables"][name])
    state: dict[str, Any] = json.loads((folder / "state.json").read_text())
    for name in _counters(model):
        setattr(model, name, type(getattr(model, name))(state["counters"][name]))
    if model.num_timesteps != timesteps_of(folder) or model._n_updates < 0 or model._episode_num < 0:
        raise ValueError("it counts other steps than its name says")
    for name in RECENT:
        setattr(model, name, deque(_numbers(state["recent"][name]), maxlen=model._stats_window_size))
    if normalizer is not None:
        with stored_arrays(folder / "normalizer.npz") as arrays:
            normalizer.load_state(dict(arrays))
    state["generators"] |= {"torch": tensors["generators"], "exploration": tensors.get("exploration", {})}
    return state


def _numbers(entries: list) -> list:
    """Return the entries, each a number or, of an episode, several by name.

    :raises KeyError, TypeError: one is something else.
    """
    for entry in entries:
        numbers = [entry["r"], entry["l"]] if isinstance(entry, dict) else [entry]
        if not all(isinstance(number, int | float) and isfinite(number) for number in numbers):
            raise TypeError("an episode's return, length or success is no number")
    return entries


def _counters(model: OffPolicyAlgorithm) -> list[str]:
    return [name for name in COUNTERS if hasattr(model, name)]


def _variables(model: OffPolicyAlgorithm) -> list[str]:
    return [name for name in model._get_torch_save_params()[1] if name != SETTING]


def _tensors(model: OffPolicyAlgorithm) -> dict[str, Any]:
    tensors: dict[str, Any] = {
        "parameters": model.get_parameters(),
        "variables": {name: recursive_getattr(model, name) for name in _variables(model)},
    }
    if model.use_sde:  # the noise of this rollout was drawn before the checkpoint
        noise = vars(model.policy.actor.action_dist)  # type: ignore[union-attr]
        tensors["exploration"] = {name: noise[name] for name in ("exploration_mat", "exploration_matrices")}
    return tensors


# --------------------------------------------------------------------------------------------- random numbers


def _generators(model: OffPolicyAlgorithm) -> dict[str, Any]:
    numpy_state: Any = np.random.get_state(legacy=False)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()
    return {
        "python": random.getstate(),
        "numpy": numpy_state,
        "action_space": model.action_space.np_random.bit_generator.state,
    }


def _torch_generators() -> dict[str, Any]:
    return {"cpu": th.get_rng_state(), "cuda": th.cuda.get_rng_state_all() if th.cuda.is_available() else []}


def set_generators(saved: dict[str, Any], model: OffPolicyAlgorithm) -> None:
    """Put every generator of random numbers back to where it was: Python's, NumPy's, torch's, the action space's.

    And the exploration noise of gSDE, which is drawn at the start of a rollout, before a checkpoint is.

    :param saved: ``generators`` of what :func:`load` returns.
    """
    version, internal, gauss = saved["python"]
    random.setstate((version, tuple(internal), gauss))
    saved["numpy"]["state"]["key"] = np.array(saved["numpy"]["state"]["key"], dtype=np.uint32)
    np.random.set_state(saved["numpy"])
    model.action_space.np_random.bit_generator.state = saved["action_space"]
    torch_states = saved["torch"]
    th.set_rng_state(torch_states["cpu"].cpu())
    if len(torch_states["cuda"]) == th.cuda.device_count():
        th.cuda.set_rng_state_all([each.cpu() for each in torch_states["cuda"]])
    if saved["exploration"]:
        vars(model.policy.actor.action_dist).update(saved["exploration"])  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------- running episodes


def save_episodes(folder: Path, actions: Sequence[np.ndarray], observations: dict[str, np.ndarray]) -> None:
    """Write what it takes to play the running episodes up to here: actions, and the raw observations they led to."""
    played = np.stack(actions) if actions else np.zeros(0)
    np.savez(folder / "episodes.npz", _actions=played, **observations)  # type: ignore[arg-type]


def load_episodes(folder: Path, model: OffPolicyAlgorithm) -> tuple[np.ndarray, dict[str, np.ndarray]] | None:
    """Return what :func:`save_episodes` wrote; None: the checkpoint is a barrier, and no episode runs on.

    :raises ValueError, KeyError: it holds something else.
    """
    path = folder / "episodes.npz"
    if not path.exists():
        return None
    with stored_arrays(path) as arrays:
        found = dict(arrays)
    actions = found.pop("_actions")
    shape = (model.n_envs, *(model.action_space.shape or ()))
    if len(actions) and (actions.shape[1:] != shape or actions.dtype.kind not in "iuf"):
        raise ValueError("its actions are of another environment")
    return actions, found
