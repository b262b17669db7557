"""Observations as the feature vectors that every network reads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor

from rlher.algos.batched_mlp import is_batchable

Observation = Any
"""A tensor, or a dictionary of tensors."""


def make_feature_fn(network: BaseModel) -> Callable[[Observation], th.Tensor]:
    """Return the function from a batch of observations to (batch, features), for a network without learnt features.

    SB3 converts, flattens and concatenates the keys for each network; without parameters the result is the same.
    """
    keys = vector_keys(network)
    if keys is None:
        return lambda obs: network.extract_features(obs, network.features_extractor)  # type: ignore[arg-type]
    return lambda obs: th.cat([obs[key] for key in keys], dim=1).float()


def make_observation_fn(network: BaseModel) -> Callable[[dict[str, np.ndarray]], np.ndarray] | None:
    """Return the function from NumPy observations, single or batched, to (batch, features).

    None unless observations are dictionaries of vectors.
    """
    keys = vector_keys(network)
    if keys is None:
        return None

    def read(obs: dict[str, np.ndarray]) -> np.ndarray:
        joined = np.concatenate([obs[key] for key in keys], axis=-1, dtype=np.float32, casting="unsafe")
        return joined.reshape(-1, joined.shape[-1])

    return read


def vector_keys(network: BaseModel) -> list[str] | None:
    """Return the observation's keys in the order the network joins them; None unless all of them are vectors."""
    extractor, space = network.features_extractor, network.observation_space
    if type(extractor) is not CombinedExtractor or not isinstance(space, spaces.Dict):
        return None
    keys = list(extractor.extractors)
    return keys if all(_is_vector(space[key]) for key in keys) else None


def _is_vector(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Box | spaces.MultiBinary) and len(space.shape or ()) == 1


def has_batchable_layers(network: BaseModel) -> bool:
    """Return whether a network's features have no parameters and all its layers are batchable."""
    extractor = network.features_extractor
    fixed_features = isinstance(extractor, CombinedExtractor | FlattenExtractor) and not any(
        True for _ in extractor.parameters()
    )
    leaves = [module for module in network.modules() if not any(True for _ in module.children())]
    return fixed_features and all(is_batchable(layer) for layer in leaves)
