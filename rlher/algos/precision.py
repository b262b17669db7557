"""Precision of the losses: float32, or bf16 with outputs and weights in float32.

A rule of CPU, batch and width decides, so the same machine always chooses the same precision. Nothing is timed
when a run starts. ``scripts/bench_precision.py`` checks the rule on a machine.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch as th
from torch import nn

from rlher.config.training import EngineConfig
from rlher.core.machine import cpuinfo

MIN_SIZE = 256
"""Least batch, and least width of the widest layer, for bf16. Below this size, converting to bf16 costs more than it
saves."""

MIN_OUTPUTS = 32
"""Layers with fewer outputs stay float32, such as an actor's before its Tanh."""


def choose_precision(
    engine: EngineConfig, device: th.device, batch_size: int, net_arch: list[int]
) -> tuple[EngineConfig, str]:
    """Return the engine with the precision resolved, and a line if it is not float32.

    ``auto`` takes bf16 where the CPU multiplies it faster than float32: with AMX, or AVX-512 BF16 of AMD.
    """
    cpu = cpuinfo()
    vendor, flags = cpu.get("vendor_id"), cpu.get("flags", "").split()
    # Intel's AVX-512 BF16 without AMX is slower than float32. Other CPUs emulate bf16, hundreds of times slower.
    has_units = "amx_bf16" in flags or (vendor == "AuthenticAMD" and "avx512_bf16" in flags)
    fast = device.type == "cpu" and has_units
    if engine.precision == "auto":
        is_large = min(batch_size, max(net_arch, default=0)) >= MIN_SIZE
        engine = replace(engine, precision="bf16" if fast and is_large else "float32")
    if engine.precision == "float32" or device.type != "cpu":
        return engine, ""
    return engine, f"precision bf16: {'the CPU has units for it' if fast else 'slower than float32 here'}"


def layer_dtype(layer: nn.Linear, layers: Sequence[nn.Module], bf16: bool = True) -> th.dtype:
    """Return the dtype in which a layer of a network is computed; the weights stay float32.

    :param layers: of the network. The last one, and narrow ones, are computed in float32: bf16 would round a Q value of
        -20 by up to 0.06.
    """
    is_rounded = bf16 and layer is not layers[-1] and layer.out_features >= MIN_OUTPUTS
    return th.bfloat16 if is_rounded else th.float32
