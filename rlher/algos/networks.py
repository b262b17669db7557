"""Evaluation of the networks in losses and for acting: features, single networks, and several networks at once."""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel, BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor
from torch import nn
from torch.nn import functional as F

from rlher.algos.observation_normalizer import NormalizedExtractor, ObservationNormalizer
from rlher.algos.precision import layer_dtype

ELEMENTWISE = (
    nn.ReLU | nn.LeakyReLU | nn.ELU | nn.SELU | nn.CELU | nn.GELU | nn.SiLU | nn.Mish | nn.Hardswish | nn.Hardtanh
) | (nn.Tanh | nn.Sigmoid | nn.Softplus | nn.Softsign | nn.Identity)
"""Layers that treat every entry alike, so the order of the input's dimensions does not matter."""


class CriticEnsemble:
    """The Q networks of a critic, with stacked weights: one batched matrix product computes a layer of all networks.

    The networks' parameters become views of the stacked tensors. A change of one changes the other, so optimizers,
    checkpoints and ``state_dict`` work as before. Networks with layers that are not batchable (:func:`is_batchable`)
    are not stacked, and are evaluated one after the other.

    :param critic: critic of Stable-Baselines3, with ``q_networks`` and a features extractor.
    :param bf16: compute wide layers in bf16, see :mod:`rlher.algos.precision`.
    :ivar weights: the networks' weights, stacked if possible.
    :ivar polyak_tensors: what a target network follows: the weights, and the parameters of the features extractor.
    :ivar gradient_tensors: what learns from the critic's loss. A shared features extractor does not.
    :ivar optimizer_parameters: the optimizer's parameters that belong to ``gradient_tensors``, in the order of
        :meth:`unstack`.
    """

    def __init__(self, critic: Any, bf16: bool) -> None:
        self.bf16 = bf16
        self.networks = critic.q_networks
        self.layers = [*self.networks[0].children()]
        parameters = [*dict.fromkeys(chain(*map(learnt_parameters, self.networks)))]
        self.is_stacked = (
            all(isinstance(network, nn.Sequential) for network in self.networks)
            and all(is_batchable(layer) for network in self.networks for layer in network)
            # No parameters are frozen, or shared by networks.
            and len(parameters) == sum(len([*network.parameters()]) for network in self.networks)
        )
        self.weights: list[th.Tensor] = [*parameters]
        if self.is_stacked:
            # The first parameters of all networks, then the second ones, and so on.
            groups = [*zip(*(network.parameters() for network in self.networks), strict=True)]
            parameters = [*chain(*groups)]
            self.weights = [_stack(group) for group in groups]
        extractor = learnt_parameters(critic.features_extractor)
        learnt_extractor = [] if critic.share_features_extractor else extractor
        self.polyak_tensors = [*self.weights, *extractor]
        self.gradient_tensors = [*self.weights, *learnt_extractor]
        self.optimizer_parameters = [*parameters, *learnt_extractor]

    def unstack(self, gradients: Sequence[th.Tensor]) -> list[th.Tensor]:
        """Return the gradients of ``optimizer_parameters``, from those of ``gradient_tensors``."""
        if not self.is_stacked:
            return list(gradients)
        count = len(self.weights)
        return [*(part for gradient in gradients[:count] for part in gradient.unbind()), *gradients[count:]]

    def __call__(self, x: th.Tensor, indices: slice | None = None, frozen: bool = False) -> th.Tensor:
        """Evaluate the networks.

        :param x: (batch, inputs), the same for every network.
        :param indices: which networks to evaluate; all if None.
        :param frozen: compute no gradient of the weights, only of the input.
        :return: (networks, batch, outputs) in float32.
        """
        if not self.is_stacked:
            return th.stack([network(x) for network in self.networks[indices or slice(None)]])
        weights = self.weights if indices is None else [tensor[indices] for tensor in self.weights]
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
                x = layer(x)
        return x.mT.float()


def learnt_parameters(network: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a network without those that its author has frozen."""
    return [parameter for parameter in network.parameters() if parameter.requires_grad]


def _stack(parameters: Sequence[nn.Parameter]) -> th.Tensor:
    """Return a stack of parameters, and make them its views."""
    stacked = th.stack([parameter.detach() for parameter in parameters])
    for parameter, view in zip(parameters, stacked, strict=True):
        parameter.data = view
    return stacked.requires_grad_()


def is_batchable(layer: nn.Module) -> bool:
    """Return whether :class:`CriticEnsemble` can evaluate a layer of several networks together."""
    if type(layer) in (nn.Linear, nn.LayerNorm):
        return [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    return isinstance(layer, ELEMENTWISE | nn.Dropout)


def apply_network(network: nn.Module, x: th.Tensor, bf16: bool) -> th.Tensor:
    """Return a network's output for x (batch, inputs), in float32.

    :param network: a layer, or a sequence of layers.
    :param bf16: compute wide layers in bf16, see :mod:`rlher.algos.precision`.
    """
    if not (bf16 and isinstance(network, nn.Linear | nn.Sequential)):
        return network(x)
    layers = [network] if isinstance(network, nn.Linear) else [*network]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            dtype = layer_dtype(layer, layers, bf16)
            bias = None if layer.bias is None else layer.bias.to(dtype)
            x = F.linear(x.to(dtype), layer.weight.to(dtype), bias)
        else:
            x = layer(x if isinstance(layer, ELEMENTWISE) else x.float())
    return x.float()


def depends_on_training_mode(policy: BasePolicy) -> bool:
    """Return whether a policy that reads only vectors has layers such as Dropout.

    Stable-Baselines3 sets the mode before and after all updates. This takes 5 % of an update, so rlher does it only
    where needed.
    """
    containers = nn.Sequential | nn.ModuleDict | BaseModel | BaseFeaturesExtractor
    layers = ELEMENTWISE | nn.Linear | nn.LayerNorm | nn.Flatten | ObservationNormalizer
    return not all(isinstance(module, containers | layers) for module in policy.modules())


def vector_keys(policy: BasePolicy) -> list[str] | None:
    """Return the observation's keys in the order in which all networks join them; None unless all are vectors.

    If there is a normalizer, it must normalise all of them; otherwise the result is None.
    """
    networks = [part for part in policy.children() if isinstance(part, BaseModel)]
    found = [(type(network.features_extractor), _vector_keys(network)) for network in networks]
    return found[0][1] if found.count(found[0]) == len(found) else None


def _vector_keys(network: BaseModel) -> list[str] | None:
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
