"""From an observation to the vector that every network reads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor

from rlher.algos.batched_mlp import can_stack

Observation = Any  # a tensor, or a dictionary of them


def features_of(network: BaseModel) -> Callable[[Observation], th.Tensor]:
    """Return the function from a batch of observations to (batch, features) of a network without learnt features.

    SB3 converts, flattens and joins the keys anew for each of its networks; without parameters the outcome is the same.
    """
    keys = vector_keys(network)
    if keys is None:
        return lambda obs: network.extract_features(obs, network.features_extractor)  # type: ignore[arg-type]
    return lambda obs: th.cat([obs[key] for key in keys], dim=1).float()


def vector_keys(network: BaseModel) -> list[str] | None:
    """Return the keys of a dictionary of plain vectors in the order the network joins them, None for other spaces."""
    extractor, space = network.features_extractor, network.observation_space
    if type(extractor) is not CombinedExtractor or not isinstance(space, spaces.Dict):
        return None
    keys = list(extractor.extractors)
    plain = all(_is_vector(space[key]) for key in keys)
    return keys if plain else None


def _is_vector(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Box | spaces.MultiBinary) and len(space.shape or ()) == 1


def reader_of(network: BaseModel) -> Callable[[dict[str, np.ndarray]], np.ndarray] | None:
    """Return the function from observations in NumPy, one or a batch, to (batch, features); None: no short way."""
    keys = vector_keys(network)
    if keys is None:
        return None

    def read(obs: dict[str, np.ndarray]) -> np.ndarray:
        joined = np.concatenate([obs[key] for key in keys], axis=-1, dtype=np.float32, casting="unsafe")
        return joined.reshape(-1, joined.shape[-1])

    return read


def is_plain(network: BaseModel) -> bool:
    """Tell whether a network learns no features and is made of layers that can be stacked."""
    extractor = network.features_extractor
    simple = isinstance(extractor, CombinedExtractor | FlattenExtractor) and not any(
        True for _ in extractor.parameters()
    )
    leaves = [module for module in network.modules() if not any(True for _ in module.children())]
    return simple and all(can_stack(layer) for layer in leaves)
