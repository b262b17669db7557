"""Make the policy function that evaluations call from a model and its normaliser."""

import numpy as np
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecNormalize

from rlher.evaluation.rollout import Policy


def make_policy(model: OffPolicyAlgorithm, normalizer: VecNormalize | None, deterministic: bool = True) -> Policy:
    """Return a model's policy as a function from one observation, not normalised, to one action."""

    def policy(observation: dict[str, np.ndarray]) -> np.ndarray:
        normalized = normalizer.normalize_obs(observation) if normalizer else observation
        return model.predict(normalized, deterministic=deterministic)[0]

    return policy
