"""Matrix products in float32 by oneDNN, which is part of torch, as an operator with a gradient.

torch's own products call MKL, which uses AVX2 on AMD processors with AVX-512: half the speed that oneDNN reaches there
(docs/internals/update_speed.md).
"""

from typing import Any

import torch as th
from torch.nn import functional as F

MIN_SIZE = 16
"""Layers with fewer inputs or outputs are multiplied by torch: a call of oneDNN takes 10 microseconds longer."""


def has_onednn() -> bool:
    """Return whether this torch has oneDNN's matrix product."""
    return th.backends.mkldnn.is_available() and hasattr(th.ops.mkldnn, "_linear_pointwise")


def linear(x: th.Tensor, weight: th.Tensor, bias: th.Tensor | None = None) -> th.Tensor:
    """``torch.nn.functional.linear`` of a (batch, inputs) tensor, by oneDNN."""
    if min(weight.shape) < MIN_SIZE:
        return F.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias)


class _Linear(th.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: th.Tensor, weight: th.Tensor, bias: th.Tensor | None) -> th.Tensor:
        ctx.save_for_backward(x, weight)
        return th.ops.rlher.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: th.Tensor) -> tuple[th.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            th.ops.rlher.linear(gradient, weight.t(), None) if of_x else None,
            th.ops.rlher.linear(gradient.t(), x.t(), None) if of_weight else None,
            gradient.sum(dim=0) if of_bias else None,
        )


# An operator of rlher, because torch.compile takes mkldnn::_linear_pointwise only with constant weights.
_LIBRARY = th.library.Library("rlher", "DEF")
_LIBRARY.define("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor")
_LIBRARY.impl("linear", lambda x, weight, bias: th.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], ""), "CPU")
_LIBRARY.impl("linear", lambda x, weight, bias: x.new_empty(x.shape[0], weight.shape[0]), "Meta")
