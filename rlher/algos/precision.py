"""Precision of the losses: float32, or bf16 with outputs and weights in float32.

A fixed rule chooses the precision from CPU, batch size and layer width. Nothing is timed, so the same machine always
chooses the same precision. ``scripts/bench_precision.py`` checks the rule on a machine.
"""

from collections.abc import Sequence

import torch as th
from torch import nn

from rlher.core.machine import cpu_info

MIN_SIZE = 256
"""Least batch, and least width of the widest layer, for bf16. Below this size, converting to bf16 costs more than it
saves."""

MIN_OUTPUTS = 32
"""Layers with fewer outputs stay float32, such as the layer before an actor's Tanh."""


def is_bf16_faster(device: th.device, batch_size: int, layer_sizes: Sequence[int]) -> bool:
    """Return whether losses take less time in bf16.

    :param layer_sizes: sizes of the hidden layers of all networks.
    """
    return has_fast_bf16(device) and min(batch_size, max(layer_sizes, default=0)) >= MIN_SIZE


def has_fast_bf16(device: th.device) -> bool:
    """Return whether a device is a CPU that multiplies bf16 faster than float32: with AMX, or AVX-512 BF16 of AMD."""
    cpu = cpu_info()
    flags = cpu.get("flags", "").split()
    # Intel's AVX-512 BF16 without AMX is slower than float32. Other CPUs emulate bf16, hundreds of times slower.
    is_fast = "amx_bf16" in flags or (cpu.get("vendor_id") == "AuthenticAMD" and "avx512_bf16" in flags)
    return device.type == "cpu" and is_fast


def layer_dtype(layer: nn.Linear, layers: Sequence[nn.Module], bf16: bool) -> th.dtype:
    """Return the dtype in which to compute a layer of a network; the weights stay float32.

    :param layers: layers of the network. The last layer and narrow layers are computed in float32, because bf16 would
        round a Q value of -20 by up to 0.06.
    """
    is_rounded = bf16 and layer is not layers[-1] and layer.out_features >= MIN_OUTPUTS
    return th.bfloat16 if is_rounded else th.float32
