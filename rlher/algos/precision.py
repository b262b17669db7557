"""Choosing the precision of the losses by a short measurement."""

import torch as th
from torch.nn import functional as F

from rlher.algos.matmul import linear
from rlher.algos.threads import time_network

MIN_BATCH = 256
"""Smallest batch for which ``auto`` considers bf16; with smaller ones, converting numbers takes what products save."""

MAX_TIME_RATIO = 0.7
"""bf16 must need at most this share of float32's time, so that a busy machine does not decide by chance."""


def choose_precision(
    mode: str, device: th.device, batch_size: int, net_arch: list[int], onednn: bool = False
) -> tuple[str, str]:
    """Return the precision of the losses, and a line that explains it.

    It draws no random numbers. It measures with the present number of threads.

    :param mode: ``float32``, ``bf16``, or ``auto``: the faster one, for a large batch on a device with bf16 units.
    :param onednn: in float32, products are oneDNN's.
    """
    if mode != "auto":
        return mode, ""
    if batch_size < MIN_BATCH:
        return "float32", f"precision float32: a batch of {batch_size} is too small to gain from bf16"
    if not has_bf16_units(device):
        return "float32", "precision float32: the processor has no bf16 units"
    seconds = [
        time_network(batch_size, net_arch, device, linear if onednn else F.linear),
        time_network(batch_size, net_arch, device, bf16=True),
    ]
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
