"""Arithmetic of the losses: their precision, and the library that multiplies their matrices.

A rule of processor, batch and width decides, so the same machine always chooses the same arithmetic. Nothing is timed
when a run starts. ``scripts/bench_precision.py`` checks the rule on a machine.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch as th
from torch import nn

from rlher.algos.onednn import has_onednn
from rlher.config.training import EngineConfig
from rlher.core.errors import UserError

MIN_SIZE = 256
"""Least batch, and least width of the widest layer, for bf16. Below this size, converting to bf16 costs more than it
saves. The width is also the least one for oneDNN's product, whose calls take 10 microseconds longer than torch's."""

MIN_OUTPUTS = 32
"""Layers with fewer outputs stay float32, such as an actor's before its Tanh."""


def choose_arithmetic(
    engine: EngineConfig, device: th.device, batch_size: int, net_arch: list[int]
) -> tuple[EngineConfig, str]:
    """Return the engine with precision and matrix product resolved, and a line for what is not torch's default.

    ``auto`` takes bf16 where the processor multiplies it fast, and oneDNN's float32 product on AMD processors with
    AVX-512, on which torch's own (MKL) uses AVX2.

    :raises UserError: oneDNN is asked for, and missing or not for the device.
    """
    width, on_cpu = max(net_arch, default=0), device.type == "cpu"
    if engine.matmul == "onednn" and not (on_cpu and has_onednn()):
        raise UserError(
            f"engine.matmul=onednn does not run with device={device} and this version of torch; use engine.matmul=auto."
        )
    fast_bf16, note = on_cpu and has_fast_bf16(), ""
    precision, matmul = engine.precision, engine.matmul
    if precision == "auto":
        precision = "bf16" if fast_bf16 and min(batch_size, width) >= MIN_SIZE else "float32"
        note = "precision bf16: the processor has units for it" if precision == "bf16" else ""
    elif precision == "bf16" and on_cpu and not fast_bf16:
        note = "precision bf16: slower than float32 on this processor"
    if matmul == "auto":
        use_onednn = on_cpu and precision == "float32" and width >= MIN_SIZE and prefers_onednn()
        matmul = "onednn" if use_onednn else "torch"
        note = "matrix products by oneDNN" if use_onednn else note
    return replace(engine, precision=precision, matmul=matmul), note


def has_fast_bf16() -> bool:
    """Return whether the processor multiplies bf16 faster than float32: with AMX, or AVX-512 BF16 of AMD.

    Intel's AVX-512 BF16 without AMX is slower than float32. Other processors emulate bf16, hundreds of times slower.
    """
    vendor, flags = processor()
    return "amx_bf16" in flags or (vendor == "AuthenticAMD" and "avx512_bf16" in flags)


def prefers_onednn() -> bool:
    """Return whether oneDNN multiplies float32 matrices faster than torch's default on this processor."""
    vendor, flags = processor()
    return vendor == "AuthenticAMD" and "avx512f" in flags and has_onednn()


@functools.cache
def processor(file: Path = Path("/proc/cpuinfo")) -> tuple[str, frozenset[str]]:
    """Return vendor and feature flags of the processor as Linux names them; nothing on other systems."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return "", frozenset()
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return values.get("vendor_id", ""), frozenset(values.get("flags", "").split())


def is_output(layer: nn.Linear, layers: Sequence[nn.Module]) -> bool:
    """Return whether a layer's results are those of its network: bf16 would round a Q value of -20 by up to 0.06."""
    return layer is layers[-1] or layer.out_features < MIN_OUTPUTS


def multiply(product: Callable[..., th.Tensor], *factors: th.Tensor, exact: bool) -> th.Tensor:
    """Return a layer's product of its factors, under autocast in bf16.

    :param exact: multiply in float32 also under autocast.
    """
    if not exact or not th.is_autocast_enabled(factors[0].device.type):
        return product(*factors)
    with th.autocast(factors[0].device.type, enabled=False):
        return product(*(factor.float() for factor in factors))
