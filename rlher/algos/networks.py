"""Evaluation of the networks in losses and for acting, and what is known of their layers."""

from functools import cache
from pkgutil import resolve_name
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel, BasePolicy
from stable_baselines3.common.torch_layers import CombinedExtractor
from torch import nn
from torch.nn import functional as F

from rlher.algos.observation_normalizer import NormalizedExtractor, ObservationNormalizer
from rlher.algos.precision import layer_dtype
from rlher.config.algorithms import ACTIVATIONS

WITHOUT_MODE = (
    BaseModel,
    CombinedExtractor,
    NormalizedExtractor,
    ObservationNormalizer,
    nn.ModuleDict,
    nn.Sequential,
    nn.Flatten,
    nn.Linear,
    nn.LayerNorm,
    *map(resolve_name, ACTIVATIONS.values()),
)
"""Networks and layers that compute the same during updates and otherwise, unlike Dropout and BatchNorm."""


def apply_network(network: nn.Module, x: th.Tensor, bf16: bool) -> th.Tensor:
    """Return a network's output for x (batch, inputs), in float32.

    :param network: a layer, or a sequence of layers.
    :param bf16: compute wide layers in bf16, see :mod:`rlher.algos.precision`.
    """
    layers = [*network] if type(network) is nn.Sequential else [network]
    for layer in layers:
        if type(layer) is nn.Linear:
            dtype = layer_dtype(layer, layers, bf16)
            x = F.linear(x.to(dtype), layer.weight.to(dtype))
            # Not as an argument of F.linear: compiled code adds the bias together with the activation.
            x = x if layer.bias is None else x + layer.bias.to(dtype)
        else:
            x = layer(x.float())
    return x.float()


def has_training_mode(policy: BasePolicy) -> bool:
    """Return whether a policy may compute something else during updates.

    Only then its mode is set before an update. On bit flipping, this would take a sixth of the time of a step.
    """
    return not all(isinstance(module, WITHOUT_MODE) for module in policy.modules())


def find_joined_keys(policy: BasePolicy) -> list[str] | None:
    """Return the observation's keys in the order in which all networks join them; None unless all are vectors.

    If there is a normalizer, it must normalise all of them; otherwise the result is None.
    """
    networks = [part for part in policy.children() if isinstance(part, BaseModel)]
    first, *others = [(type(network.features_extractor), _joined_keys_of(network)) for network in networks]
    _, keys = first
    return keys if all(other == first for other in others) else None


def _joined_keys_of(network: BaseModel) -> list[str] | None:
    extractor: Any = network.features_extractor
    space = network.observation_space
    normalized = None
    if isinstance(extractor, NormalizedExtractor):
        normalized = extractor.normalizer.shapes.keys()
        extractor = extractor.extractor
    if type(extractor) is not CombinedExtractor or not isinstance(space, spaces.Dict):
        return None
    keys = list(extractor.extractors)
    is_joined = all(_is_vector(space[key]) for key in keys) and normalized in (None, set(keys))
    return keys if is_joined else None


def _is_vector(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Box | spaces.MultiBinary) and len(space.shape or ()) == 1


@cache
def with_layer_norm(policy: type[BasePolicy]) -> type[BasePolicy]:
    """Return a subclass of the policy with LayerNorm before each activation of its critics.

    LayerNorm keeps critics stable with many updates per step (DroQ, Hiraoka et al. 2022, arXiv:2110.02034).

    :param policy: policy class of an algorithm with continuous actions.
    """

    class LayerNormCritics(policy):  # type: ignore[misc, valid-type]
        def make_critic(self, *args: Any, **kwargs: Any) -> Any:
            critic = super().make_critic(*args, **kwargs)
            for network in critic.q_networks:
                *hidden, _ = enumerate(network)
                for index, layer in reversed(hidden):  # from the end: an insertion shifts later layers
                    if isinstance(layer, nn.Linear):
                        network.insert(index + 1, nn.LayerNorm(layer.out_features, device=critic.device))
            return critic

    LayerNormCritics.__name__ = f"LayerNorm{policy.__name__}"
    return LayerNormCritics
