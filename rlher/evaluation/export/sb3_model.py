"""Rebuild a run's model as a plain Stable-Baselines3 or sb3-contrib model, which needs nothing of rlher."""

from dataclasses import replace
from typing import Any

import numpy as np
from sb3_contrib.crossq.policies import CrossQPolicy
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.torch_layers import CombinedExtractor
from stable_baselines3.common.vec_env import VecEnv

from rlher.algos.factory import build_inference_model, constructor_arguments, uses_sde
from rlher.config.algorithms import ALGORITHMS, OffPolicyConfig, import_class
from rlher.envs.normalize import GoalNormalize
from rlher.runs import model_file
from rlher.runs.run_folder import Run


def plain_model(
    run: Run, which: str, venv: VecEnv, normalizer: GoalNormalize | None
) -> tuple[OffPolicyAlgorithm, dict[str, Any]]:
    """Rebuild a model of a run with a replay buffer of one transition; nothing is unpickled.

    :param which: model of the run, as :meth:`Run.choose_model` returns it.
    :param normalizer: receives the statistics; None if the run does not normalise.
    :return: the model, and what ``play.py`` builds its policy from, as JSON values.
    :raises UserError: there is no such model, or it is damaged.
    """
    algo = run.config.algo
    arguments = constructor_arguments(_with_sb3_classes(algo), venv, buffer_size=1, seed=run.config.seed)
    model_class = import_class(ALGORITHMS[algo.name].sb3)
    policy_class = model_class.policy_aliases.get("MultiInputPolicy")
    if policy_class is None:  # sb3-contrib's CrossQ
        policy_class, arguments["policy_kwargs"]["features_extractor_class"] = CrossQPolicy, CombinedExtractor
    kwargs = dict(arguments["policy_kwargs"])  # constructors change it
    model = model_class(policy_class, venv, device="cpu", **arguments)
    if getattr(algo, "layer_norm_critics", False):
        trained = build_inference_model(algo, venv, "cpu")
        model_file.load_policy(run.model(which), trained, normalizer)
        model.policy.actor.load_state_dict(trained.policy.actor.state_dict())  # type: ignore[union-attr]
    else:
        model_file.load_all(run.model(which), model, normalizer)
    model.num_timesteps = model_file.read_timesteps(run.model(which))
    return model, {
        "algorithm": _path(model_class),
        "algorithm_kwargs": {"use_sde": True} if uses_sde(algo) else {},
        "policy": _path(policy_class),
        "policy_kwargs": {key: value for key, value in kwargs.items() if not isinstance(value, type)},
        "policy_classes": {key: _path(value) for key, value in kwargs.items() if isinstance(value, type)},
    }


def _path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__name__}"


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


def scales(normalizer: GoalNormalize | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return mean and standard deviation, float64, of each key that is normalised."""
    statistics = normalizer.obs_rms.items() if normalizer else ()
    return {key: (rms.mean, np.sqrt(rms.var + normalizer.epsilon)) for key, rms in statistics}  # type: ignore[union-attr]
