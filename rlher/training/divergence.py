"""Diverged training: weights of the policy that are no longer finite."""

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm

from rlher.core.errors import EnvironmentFault


class Diverged(EnvironmentFault):
    """Training diverged. Handled like a fault of the environment: exit code 1, and earlier models are kept."""


def all_finite(model: BaseAlgorithm) -> bool:
    """Return whether every weight of the model's policy is finite."""
    return all(bool(th.isfinite(weights).all()) for weights in model.policy.parameters())
