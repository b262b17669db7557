"""The rule of sizes and processor for bf16; outputs of networks are float32."""

import pytest
import torch as th
from torch import nn

from rlher.algos import precision
from rlher.algos.networks import apply_network
from rlher.algos.precision import is_bf16_faster

AVX = {"avx512f", "avx512_bf16"}


def pretend(monkeypatch, vendor: str, flags: set[str]) -> None:
    """Run on a CPU of this vendor with these features."""
    monkeypatch.setattr(precision, "cpu_info", lambda: {"vendor_id": vendor, "flags": " ".join(flags)})


@pytest.mark.parametrize(
    ("vendor", "flags", "batch", "width", "expected"),
    [
        ("GenuineIntel", AVX | {"amx_bf16"}, 256, 256, True),
        ("GenuineIntel", AVX | {"amx_bf16"}, 128, 512, False),
        ("GenuineIntel", AVX, 512, 512, False),
        ("AuthenticAMD", AVX, 256, 256, True),
        ("AuthenticAMD", AVX, 256, 128, False),
        ("AuthenticAMD", {"avx2"}, 2048, 512, False),
        ("", set(), 2048, 512, False),
    ],
)
def test_processor_batch_and_width_decide(monkeypatch, vendor, flags, batch, width, expected) -> None:
    pretend(monkeypatch, vendor, flags)
    assert is_bf16_faster(th.device("cpu"), batch, [64, width]) == expected


def test_a_gpu_has_float32(monkeypatch) -> None:
    pretend(monkeypatch, "AuthenticAMD", AVX)
    assert not is_bf16_faster(th.device("cuda"), 2048, [2048])


@pytest.mark.parametrize("outputs", [2, precision.MIN_OUTPUTS])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_outputs_are_float32(layer_norm: bool, outputs: int) -> None:
    """A Q value of -20.06 is not a number of bf16, whose neighbours of it are 0.125 apart."""
    norm = [nn.LayerNorm(40)] if layer_norm else []
    network = nn.Sequential(nn.Linear(3, 40), *norm, nn.ReLU(), nn.Linear(40, outputs))
    with th.no_grad():
        for parameter in (network[-1].weight, network[-1].bias):
            parameter.zero_()
        network[-1].bias += -20.06
    values = apply_network(network, th.ones(4, 3), bf16=True)
    assert values.dtype == th.float32
    assert th.allclose(values, th.tensor(-20.06))


@pytest.mark.parametrize("bf16", [False, True])
def test_an_own_forward_of_a_sequence_is_called(bf16: bool) -> None:
    class Residual(nn.Sequential):
        def forward(self, x: th.Tensor) -> th.Tensor:
            return x + super().forward(x)

    network, x = Residual(nn.Linear(40, 40)), th.ones(2, 40)
    assert th.equal(apply_network(network, x, bf16), network(x))
