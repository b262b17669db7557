"""A run's model rebuilt from classes of Stable-Baselines3 and sb3-contrib alone."""

from copy import deepcopy
from dataclasses import dataclass
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
class Plain:
    """A model that knows nothing of rlher.

    :param model: with the run's weights.
    :param policy: what its constructor was given as policy.
    :param arguments: and as keyword arguments.
    :param caveats: what it cannot do, a sentence each.
    """

    model: OffPolicyAlgorithm
    policy: Any
    arguments: dict[str, Any]
    caveats: list[str]


def plain_model(run: Run, which: str, venv: VecEnv, normalizer: GoalNormalize | None) -> Plain:
    """Rebuild one of a run's models, and fill in weights and statistics.

    Its replay buffer holds a single transition, and nothing is unpickled.

    :param which: of the run's models, as :meth:`Run.choose` returns it.
    :param venv: an environment of the run.
    :param normalizer: of observations, filled in too; None: the run has none.
    :raises UserError: no model, or a damaged one.
    """
    algo = run.config.algo
    arguments = constructor_arguments(algo, venv, buffer_size=1, seed=run.config.seed)
    policy: Any = "MultiInputPolicy"
    if algo.name == "crossq":  # sb3-contrib's has no policy of that name
        policy, arguments["policy_kwargs"]["features_extractor_class"] = CrossQPolicy, CombinedExtractor
    model = import_class(ALGORITHMS[algo.name].sb3)(policy, venv, device="cpu", **deepcopy(arguments))
    if getattr(algo, "layer_norm_critics", False):
        ours = build_inference_model(algo, venv, "cpu")
        model_file.load_policy(run.model(which), ours, normalizer)
        model.policy.actor.load_state_dict(ours.policy.actor.state_dict())  # type: ignore[union-attr]
    else:
        model_file.load_all(run.model(which), model, normalizer)
    model.num_timesteps = model_file.read_timesteps(run.model(which))
    return Plain(model, policy, arguments, caveats(algo))


def caveats(algo: OffPolicyConfig) -> list[str]:
    """Say what an exported model of this algorithm cannot do, a sentence each."""
    found = []
    if getattr(algo, "layer_norm_critics", False):
        found.append(
            "The critics were trained with LayerNorm, which Stable-Baselines3's lack. The actor is the trained one, "
            "the critics are fresh: the model plays as it did but cannot be trained on."
        )
    if algo.name == "crossq":
        found.append(
            "sb3-contrib's CrossQ cannot train on dictionaries of observations: the model plays as it did but cannot "
            "be trained on."
        )
    return found


def scales(normalizer: GoalNormalize) -> dict[str, np.ndarray]:
    """Return mean and standard deviation of each normalised key, as ``<key>/mean`` and ``<key>/std``, float64."""
    return {
        f"{name}/{field}": value
        for name, rms in normalizer.obs_rms.items()
        for field, value in (("mean", rms.mean), ("std", np.sqrt(rms.var + normalizer.epsilon)))
    }
