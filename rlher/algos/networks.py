"""Evaluation of the networks in losses and for acting: features, single networks, and several networks at once."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel, BasePolicy
from stable_baselines3.common.torch_layers import CombinedExtractor
from torch import nn
from torch.nn import functional as F

from rlher.algos.observation_normalizer import NormalizedExtractor, ObservationNormalizer
from rlher.algos.precision import layer_dtype

ObservationBatch = Any
"""A tensor, or a dictionary of tensors."""

ELEMENTWISE = nn.ReLU | nn.Tanh | nn.ELU | nn.GELU | nn.SiLU | nn.LeakyReLU | nn.Softplus | nn.Identity
"""Layers that treat every entry alike, so the order of the input's dimensions does not matter."""


class CriticEnsemble:
    """Several networks with stacked weights, so that one batched matrix product computes a layer of all networks.

    The networks' parameters become views of the stacked tensors. A change of one changes the other, so optimizers,
    checkpoints and ``state_dict`` work as before.

    :param networks: networks with the same sequence of layers, all of them batchable (:func:`is_batchable`).
    :param bf16: compute wide layers in bf16, see :mod:`rlher.algos.precision`.
    """

    def __init__(self, networks: Sequence[nn.Module], bf16: bool = False) -> None:
        self.bf16 = bf16
        self.layers = [*networks[0].children()]
        self.parameters: list[nn.Parameter] = []
        self.stacked: list[th.Tensor] = []
        for layers in zip(*(network.children() for network in networks), strict=True):
            for parts in zip(*(layer.parameters() for layer in layers), strict=True):
                stacked = th.stack([part.detach() for part in parts])
                for part, view in zip(parts, stacked, strict=True):
                    part.data = view
                self.parameters += parts
                self.stacked.append(stacked.requires_grad_())

    def __call__(self, x: th.Tensor, indices: slice | None = None, frozen: bool = False) -> th.Tensor:
        """Evaluate the networks.

        :param x: (batch, inputs), the same for every network.
        :param indices: which networks to evaluate; all if None.
        :param frozen: compute no gradient of the weights, only of the input.
        :return: (networks, batch, outputs) in float32.
        """
        weights = self.stacked if indices is None else [tensor[indices] for tensor in self.stacked]
        if frozen:
            weights = [tensor.detach() for tensor in weights]

        # With the batch on the last axis, gradients get the weights' memory layout, so the optimizer copies nothing.
        x = x.expand(len(weights[0]), *x.shape).mT
        parts = iter(weights)
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                weight, bias = next(parts), next(parts)
                dtype = layer_dtype(layer, self.layers, self.bf16)
                # Not baddbmm, which first fills the output with the bias. Compiled code adds it with the activation.
                x = th.bmm(weight.to(dtype), x.to(dtype)) + bias.unsqueeze(2).to(dtype)
            elif isinstance(layer, nn.LayerNorm):
                scale, shift = next(parts), next(parts)
                # Not F.layer_norm, which compiles to slow code here: 2.3 ms of a DDPG update in bf16, not 0.5.
                x = x.float()
                x = x - x.mean(1, keepdim=True)
                normal = x * th.rsqrt(x.square().mean(1, keepdim=True) + layer.eps)
                x = th.addcmul(shift.unsqueeze(2), normal, scale.unsqueeze(2))
            else:
                x = layer(x) if isinstance(layer, ELEMENTWISE) else layer(x.mT).mT
        return x.mT.float()


def is_batchable(layer: nn.Module) -> bool:
    """Return whether :class:`CriticEnsemble` can evaluate a layer. A layer must not depend on the training mode."""
    if isinstance(layer, nn.Linear):
        return layer.bias is not None
    if isinstance(layer, nn.LayerNorm):
        return layer.elementwise_affine and layer.bias is not None
    if isinstance(layer, nn.modules.dropout._DropoutNd | nn.RReLU):
        return False
    return not [*layer.parameters(), *layer.buffers()]


def apply_network(network: nn.Module, x: th.Tensor, bf16: bool) -> th.Tensor:
    """Return a network's output for x (batch, inputs), in float32.

    :param network: a layer, or a sequence of layers.
    :param bf16: compute wide layers in bf16, see :mod:`rlher.algos.precision`.
    """
    if not bf16:
        return network(x)
    layers = [network] if isinstance(network, nn.Linear) else [*network.children()]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            dtype = layer_dtype(layer, layers, bf16)
            x = F.linear(x.to(dtype), layer.weight.to(dtype), layer.bias.to(dtype))
        else:
            x = layer(x)
    return x.float()


def make_feature_fn(network: BaseModel) -> Callable[[ObservationBatch], th.Tensor]:
    """Return a function from a batch of observations to (batch, features), for a network without learnt features.

    SB3 converts, flattens and concatenates the keys once per network. Without parameters, the features of all networks
    are the same. If all keys are vectors, the function also takes arrays, and a single observation.
    """
    keys = vector_keys(network)
    if keys is None:
        return lambda obs: network.extract_features(obs, network.features_extractor)  # type: ignore[arg-type]
    normalize: Callable = getattr(network.features_extractor, "normalizer", nn.Identity())
    device = network.device  # looked up once, because Stable-Baselines3 searches the parameters for it

    def features(obs: ObservationBatch) -> th.Tensor:
        vectors = [th.as_tensor(obs[key], dtype=th.float32, device=device) for key in keys]
        return normalize(th.cat(vectors, dim=-1))

    return features


def vector_keys(network: BaseModel) -> list[str] | None:
    """Return the observation's keys in the order in which the network joins them; None unless all are vectors.

    If there is a normalizer, it must normalise all of them; otherwise the result is None.
    """
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


def has_batchable_layers(network: BaseModel) -> bool:
    """Return whether a network's features have no parameters and all its layers are batchable."""
    extractor: Any = network.features_extractor
    if [*extractor.parameters()]:
        return False
    leaves = [module for module in network.modules() if not [*module.children()]]
    return all(isinstance(layer, ObservationNormalizer) or is_batchable(layer) for layer in leaves)


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
