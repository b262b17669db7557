"""Matrix products in float32 by oneDNN, for processors on which torch's own are slow.

torch calls MKL, which uses AVX2 on an AMD processor with AVX-512: half the speed that oneDNN, also part of torch,
reaches there (docs/internals/update_step.md).
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

import torch as th
from torch import nn
from torch.nn import functional as F

from rlher.algos.precision import is_output, multiply
from rlher.core.errors import UserError

MIN_SIZE = 16
"""Layers with fewer inputs or outputs are multiplied by torch: a call of oneDNN takes 10 microseconds longer."""

MIN_WIDTH = 256
"""Smallest layer for which ``auto`` considers oneDNN."""

MAX_TIME_RATIO = 0.75
"""oneDNN must need at most this share of torch's time, so that a busy machine does not decide by chance."""


def choose_matmul(mode: str, device: th.device, batch_size: int, net_arch: list[int]) -> tuple[str, str]:
    """Return what multiplies float32 matrices in the losses, and a line that explains it.

    It draws no random numbers. It measures with the present number of threads.

    :param mode: ``torch``, ``onednn``, or ``auto``: the faster one, if a layer is wide.
    :raises UserError: oneDNN is asked for, and missing or not for the device.
    """
    available = device.type == "cpu" and has_onednn()
    if mode == "onednn" and not available:
        reason = "this torch has no oneDNN" if device.type == "cpu" else f"oneDNN does not run on device={device.type}"
        raise UserError(f"engine.matmul=onednn is not possible: {reason}; use engine.matmul=auto.")
    if mode != "auto":
        return mode, ""
    width = max(net_arch, default=0)
    if not available or width < MIN_WIDTH:
        return "torch", ""
    torch, onednn = _time_products(batch_size, width, th.get_num_threads())
    if onednn > MAX_TIME_RATIO * torch:
        return "torch", ""
    return "onednn", f"matrix products by oneDNN: {1e3 * onednn:.2f} ms each, {1e3 * torch:.2f} by torch's default"


def has_onednn() -> bool:
    """Return whether this torch has oneDNN's matrix product."""
    return th.backends.mkldnn.is_available() and hasattr(th.ops.mkldnn, "_linear_pointwise")


@functools.cache  # the trials that a worker of `rlher optimize` trains use the same product
def _time_products(batch_size: int, width: int, threads: int) -> tuple[float, float]:
    """Return the median seconds of a product by torch and by oneDNN, measured in turns with the threads of torch."""
    x, weight = th.ones(batch_size, width), th.ones(width, width)
    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(21):
        for product, times in zip((F.linear, linear), seconds, strict=True):
            started = time.perf_counter()
            product(x, weight)
            times.append(time.perf_counter() - started)
    return median(seconds[0]), median(seconds[1])


def evaluate(
    layers: Sequence[nn.Module],
    x: th.Tensor,
    parameters: Iterator[th.Tensor],
    linear: Callable[..., th.Tensor],
) -> th.Tensor:
    """Evaluate ``Linear``, ``LayerNorm`` and elementwise layers.

    :param x: (batch, inputs).
    :param parameters: of the layers, in their order.
    :param linear: multiplies inputs with weight and bias.
    """
    for layer in layers:
        if isinstance(layer, nn.Linear):
            x = multiply(linear, x, next(parameters), next(parameters), exact=is_output(layer, layers))
        elif isinstance(layer, nn.LayerNorm):
            x = F.layer_norm(x, layer.normalized_shape, next(parameters), next(parameters), layer.eps)
        else:
            x = layer(x)
    return x


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


# An operator of our own, because torch.compile takes mkldnn::_linear_pointwise only with constant weights.
_LIBRARY = th.library.Library("rlher", "DEF")
_LIBRARY.define("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor")
_LIBRARY.impl("linear", lambda x, weight, bias: th.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], ""), "CPU")
_LIBRARY.impl("linear", lambda x, weight, bias: x.new_empty(x.shape[0], weight.shape[0]), "Meta")
