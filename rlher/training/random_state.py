"""The state of every random number generator of a training run, and of its exploration noise."""

import random
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from rlher.algos import exploration

NOISE = ("exploration_mat", "exploration_matrices")
"""Attributes of gSDE's action distribution: noise drawn at the start of a rollout, before a checkpoint is written."""


def numpy_and_python(model: OffPolicyAlgorithm) -> dict[str, Any]:
    """Return the states of the generators of Python, NumPy and the action space, and of the noise, as JSON values."""
    numpy_state: Any = np.random.get_state(legacy=False)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()
    return {
        "python": random.getstate(),
        "numpy": numpy_state,
        "action_space": model.action_space.np_random.bit_generator.state,
        "noise": exploration.state(model),
    }


def torch_generators() -> dict[str, Any]:
    """Return the states of torch's generators, as tensors."""
    return {"cpu": th.get_rng_state(), "cuda": th.cuda.get_rng_state_all() if th.cuda.is_available() else []}


def exploration_noise(model: OffPolicyAlgorithm) -> dict[str, th.Tensor]:
    """Return the noise that a model with ``use_sde`` has drawn."""
    distribution = model.policy.actor.action_dist  # type: ignore[union-attr]
    return {name: getattr(distribution, name) for name in NOISE}


def restore(saved: dict[str, Any], model: OffPolicyAlgorithm) -> None:
    """Set every generator, and the noise of gSDE, to a saved state.

    :param saved: the result of :func:`numpy_and_python`, with that of :func:`torch_generators` as ``"torch"`` and as
        ``"exploration"`` that of :func:`exploration_noise`, if any.
    """
    version, internal, gauss = saved["python"]
    random.setstate((version, tuple(internal), gauss))
    saved["numpy"]["state"]["key"] = np.array(saved["numpy"]["state"]["key"], dtype=np.uint32)
    np.random.set_state(saved["numpy"])
    model.action_space.np_random.bit_generator.state = saved["action_space"]
    th.set_rng_state(saved["torch"]["cpu"].cpu())
    if len(saved["torch"]["cuda"]) == th.cuda.device_count():
        th.cuda.set_rng_state_all([each.cpu() for each in saved["torch"]["cuda"]])
    if "noise" in saved:  # not in checkpoints of older versions
        exploration.restore(model, saved["noise"])
    if saved["exploration"]:
        for name in NOISE:
            setattr(model.policy.actor.action_dist, name, saved["exploration"][name])  # type: ignore[union-attr]
