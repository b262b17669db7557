"""Rebuild a run's model as a plain Stable-Baselines3 or sb3-contrib model."""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sb3_contrib.crossq.policies import CrossQPolicy
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.torch_layers import CombinedExtractor
from stable_baselines3.common.vec_env import VecEnv

from rlher.algos.factory import build_inference_model, constructor_arguments
from rlher.config.algorithms import ALGORITHMS, OffPolicyConfig, import_class
from rlher.envs.normalize import GoalNormalize
from rlher.runs import model_file
from rlher.runs.run_folder import Run


@dataclass(frozen=True)
class PlainModel:
    """A model that needs nothing of rlher.

    :param policy: policy that its constructor was called with.
    :param arguments: keyword arguments that its constructor was called with.
    :param caveats: limitations, one sentence each.
    """

    model: OffPolicyAlgorithm
    policy: Any
    arguments: dict[str, Any]
    caveats: list[str]


def plain_model(run: Run, which: str, venv: VecEnv, normalizer: GoalNormalize | None) -> PlainModel:
    """Rebuild a model of a run with a replay buffer of one transition; nothing is unpickled.

    :param which: model of the run, as :meth:`Run.choose_model` returns it.
    :param normalizer: receives the statistics; None if the run does not normalise.
    :raises UserError: there is no such model, or it is damaged.
    """
    algo = run.config.algo
    arguments = constructor_arguments(_with_sb3_classes(algo), venv, buffer_size=1, seed=run.config.seed)
    policy: Any = "MultiInputPolicy"
    if algo.name == "crossq":  # sb3-contrib's CrossQ has no MultiInputPolicy
        policy, arguments["policy_kwargs"]["features_extractor_class"] = CrossQPolicy, CombinedExtractor
    model = import_class(ALGORITHMS[algo.name].sb3)(policy, venv, device="cpu", **deepcopy(arguments))
    if getattr(algo, "layer_norm_critics", False):
        trained = build_inference_model(algo, venv, "cpu")
        model_file.load_policy(run.model(which), trained, normalizer)
        model.policy.actor.load_state_dict(trained.policy.actor.state_dict())  # type: ignore[union-attr]
    else:
        model_file.load_all(run.model(which), model, normalizer)
    model.num_timesteps = model_file.read_timesteps(run.model(which))
    return PlainModel(model, policy, arguments, caveats(algo))


def _with_sb3_classes(algo: OffPolicyConfig) -> OffPolicyConfig:
    """Return a config without noise and schedules of which Stable-Baselines3 has no class."""
    if algo.learning_rate_schedule == "cosine":
        algo = replace(algo, learning_rate_schedule="constant")
    return replace(algo, noise="normal") if getattr(algo, "noise", "normal") == "pink" else algo  # type: ignore[call-arg]


def caveats(algo: OffPolicyConfig) -> list[str]:
    """Return the limitations of an exported model, one sentence each."""
    sentences = []
    if getattr(algo, "layer_norm_critics", False):
        sentences.append(
            "The critics were trained with LayerNorm, which Stable-Baselines3 lacks: the actor is the trained one, "
            "the critics are untrained, so the model can be played but not trained further."
        )
    if _with_sb3_classes(algo) != algo:
        sentences.append(
            "It was trained with pink noise or a cosine schedule, which Stable-Baselines3 lacks: further training has "
            "white noise and a constant learning rate."
        )
    if algo.name == "crossq":
        sentences.append(
            "sb3-contrib's CrossQ cannot train on dictionary observations, so the model can be played but not trained "
            "further."
        )
    return sentences


def normalization_scales(normalizer: GoalNormalize) -> dict[str, np.ndarray]:
    """Return mean and standard deviation of each normalised key, as ``<key>/mean`` and ``<key>/std``, float64."""
    return {
        f"{name}/{field}": value
        for name, rms in normalizer.obs_rms.items()
        for field, value in (("mean", rms.mean), ("std", np.sqrt(rms.var + normalizer.epsilon)))
    }
