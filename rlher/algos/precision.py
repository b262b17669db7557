"""Precision of the losses: float32, or bf16 where the device has units for it."""

from collections.abc import Callable, Sequence

import torch as th
from torch import nn

from rlher.algos.threads import time_network

MIN_BATCH = 256
"""Smallest batch for which ``auto`` takes bf16; with smaller ones, converting numbers takes what products save."""

MIN_WIDTH = 256
"""Least width of the widest layer for which ``auto`` takes bf16, for the same reason."""

MAX_TIME_RATIO = 0.7
"""On a GPU, bf16 must need at most this share of float32's time."""

MIN_OUTPUTS = 32
"""Layers with fewer outputs stay float32, such as an actor's before its Tanh."""


def choose_precision(mode: str, device: th.device, batch_size: int, net_arch: list[int]) -> tuple[str, str]:
    """Return the precision of the losses, and a line that explains it.

    On a CPU sizes and units decide, not a measurement: on a busy machine it would decide by chance, and the seeds of
    an experiment would differ in precision. On a GPU a short one decides. It draws no random numbers.

    :param mode: ``float32``, ``bf16``, or ``auto``: bf16 if batch and a layer are large and the device has bf16 units.
    """
    has_units = has_bf16_units(device)
    if mode == "bf16" and not has_units:
        return mode, f"precision bf16: slow, because {device.type} has no units for it"
    if mode != "auto":
        return mode, ""
    if batch_size < MIN_BATCH or max(net_arch, default=0) < MIN_WIDTH or not has_units:
        return "float32", ""
    if device.type == "cpu":
        return "bf16", "precision bf16: the processor has units for it"
    seconds = [time_network(batch_size, net_arch, device, bf16=bf16) for bf16 in (False, True)]
    chosen = "bf16" if seconds[1] <= MAX_TIME_RATIO * seconds[0] else "float32"
    milliseconds = [f"{1e3 * each:.2f}" for each in seconds]
    return chosen, f"precision {chosen}: a network took {milliseconds[0]} ms in float32 and {milliseconds[1]} in bf16"


def has_bf16_units(device: th.device) -> bool:
    """Return whether a device multiplies bf16 matrices itself: AMX, AVX-512 BF16, or a GPU from Ampere on.

    Elsewhere torch emulates it, hundreds of times slower.
    """
    if device.type == "cuda":
        return th.cuda.is_bf16_supported(including_emulation=False)
    checks = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")  # private, and not in every version of torch
    return device.type == "cpu" and any(getattr(th.cpu, name, lambda: False)() for name in checks)


def is_output(layer: nn.Linear, layers: Sequence[nn.Module]) -> bool:
    """Return whether a layer's results are those of its network: bf16 would round a Q value of -20 by up to 0.06."""
    return layer is layers[-1] or layer.out_features < MIN_OUTPUTS


def multiply(product: Callable[..., th.Tensor], *factors: th.Tensor, exact: bool) -> th.Tensor:
    """Return a layer's product of its factors, under autocast in bf16.

    :param exact: in float32 under autocast, too.
    """
    if not exact or not th.is_autocast_enabled(factors[0].device.type):
        return product(*factors)
    with th.autocast(factors[0].device.type, enabled=False):
        return product(*(factor.float() for factor in factors))
