"""Networks of the same shape, evaluated together."""

from collections.abc import Iterator, Sequence

import torch as th
from torch import nn
from torch.nn import functional as F

ELEMENTWISE = nn.ReLU | nn.Tanh | nn.ELU | nn.GELU | nn.SiLU | nn.LeakyReLU | nn.Softplus | nn.Identity
"""Layers that do not care in which order their input's dimensions are."""


class Stack:
    """Several networks whose weights lie side by side, so that a layer of all of them is one batched product.

    Measured on one core, forward and backward, against one network after the other: 25 % less time for two of 64², 5 %
    for two of 256², 18 % for five of 256².

    The networks' own parameters become views of the joined tensors: what changes the one changes the other, and
    optimisers, checkpoints and ``state_dict`` see the networks as they were.

    :param networks: sequences of ``Linear``, ``LayerNorm`` and elementwise modules, all alike.
    :raises TypeError: a module of another kind that has parameters.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self.layers = [*networks[0].children()]
        self.batch_last = all(isinstance(layer, nn.Linear | ELEMENTWISE) for layer in self.layers)
        self.parameters: list[nn.Parameter] = []
        self.tensors: list[th.Tensor] = []
        for alike in zip(*(network.children() for network in networks), strict=True):
            if not can_stack(alike[0]):
                raise TypeError(f"{type(alike[0]).__name__} cannot be stacked.")
            for parts in zip(*(layer.parameters() for layer in alike), strict=True):
                joined = th.stack([part.detach() for part in parts])
                for part, view in zip(parts, joined, strict=True):
                    part.data = view
                self.parameters += parts
                self.tensors.append(joined.requires_grad_())

    def __call__(self, x: th.Tensor, chosen: slice | th.Tensor | None = None, frozen: bool = False) -> th.Tensor:
        """Evaluate the networks.

        :param x: (batch, inputs), the same for all of them.
        :param chosen: which networks, all of them where None.
        :param frozen: do not track their weights, only the input.
        :return: (networks, batch, outputs).
        """
        tensors = self.tensors if chosen is None else [tensor[chosen] for tensor in self.tensors]
        if frozen:
            tensors = [tensor.detach() for tensor in tensors]
        x = x.expand(len(tensors[0]), *x.shape)
        return self._batch_last(x.mT, tensors).mT if self.batch_last else self._features_last(x, tensors)

    def _batch_last(self, x: th.Tensor, tensors: Sequence[th.Tensor]) -> th.Tensor:
        """Evaluate on (networks, inputs, batch), the batch side by side in memory.

        So the gradient of a weight comes out in the weight's own layout, and the optimiser has nothing to copy. No
        layer in between turns its input round: compiled code would turn what it writes, at many times the cost. A bias
        is added apart, which compiled code does along with the activation; ``baddbmm`` fills the output with it first.
        """
        weights = iter(tensors)
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                weight, bias = next(weights), next(weights)
                x = th.bmm(weight, x)
                x = x + bias.unsqueeze(2).to(x.dtype)  # which under autocast is the product's, not the bias's
            else:
                x = layer(x)
        return x

    def _features_last(self, x: th.Tensor, tensors: Sequence[th.Tensor]) -> th.Tensor:
        """Evaluate on (networks, batch, inputs), features side by side in memory, as LayerNorm is fastest on them."""
        weights = iter(tensors)
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                weight, bias = next(weights), next(weights)
                x = th.baddbmm(bias.unsqueeze(1), x, weight.mT)
            elif isinstance(layer, nn.LayerNorm):
                scale, shift = next(weights), next(weights)
                normal = F.layer_norm(x, layer.normalized_shape, eps=layer.eps)
                x = th.addcmul(shift.unsqueeze(1), normal, scale.unsqueeze(1))
            else:
                x = layer(x)
        return x

    def gradients(self, joined: Sequence[th.Tensor]) -> Iterator[th.Tensor]:
        """Split gradients of the joined tensors into those of the networks' own parameters, in their order."""
        for gradient in joined:
            yield from gradient


def can_stack(layer: nn.Module) -> bool:
    """Tell whether a layer is of a kind that a stack knows, and does the same in training and in evaluation."""
    if isinstance(layer, nn.Linear):
        return layer.bias is not None
    if isinstance(layer, nn.LayerNorm):
        return layer.elementwise_affine and layer.bias is not None
    if isinstance(layer, nn.modules.dropout._DropoutNd | nn.RReLU):
        return False
    return not any(True for _ in layer.parameters()) and not any(True for _ in layer.buffers())
