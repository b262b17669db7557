"""The precision of the losses is chosen by sizes and processor, and kept; outputs of networks are float32."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch as th
import yaml
from torch import nn
from torch.nn import functional as F

from rlher.algos import precision
from rlher.algos.batched_mlp import BatchedMLP
from rlher.algos.fast_update import FastUpdate
from rlher.algos.options import Options
from tests.conftest import TINY

CPU = th.device("cpu")


@pytest.mark.parametrize(
    ("mode", "has_units", "batch", "width", "chosen"),
    [
        ("auto", True, 256, 256, "bf16"),
        ("auto", True, 128, 512, "float32"),
        ("auto", True, 512, 128, "float32"),
        ("auto", False, 2048, 512, "float32"),
        ("bf16", False, 16, 16, "bf16"),
        ("float32", True, 2048, 512, "float32"),
    ],
)
def test_sizes_and_processor_decide(monkeypatch, mode: str, has_units: bool, batch: int, width: int, chosen) -> None:
    monkeypatch.setattr(precision, "has_bf16_units", lambda device: has_units)
    assert precision.choose_precision(mode, CPU, batch, [64, width])[0] == chosen


@pytest.mark.parametrize(("ratio", "chosen"), [(0.4, "bf16"), (0.9, "float32")])
def test_a_measurement_decides_on_a_gpu(monkeypatch, ratio: float, chosen: str) -> None:
    monkeypatch.setattr(precision, "has_bf16_units", lambda device: True)
    monkeypatch.setattr(precision, "time_network", lambda *_, bf16: ratio if bf16 else 1.0)
    assert precision.choose_precision("auto", th.device("cuda"), 2048, [512])[0] == chosen


def test_bf16_without_units_is_said_to_be_slow(monkeypatch) -> None:
    monkeypatch.setattr(precision, "has_bf16_units", lambda device: False)
    assert "slow" in precision.choose_precision("bf16", CPU, 256, [256])[1]


def test_measuring_leaves_random_numbers_and_threads() -> None:
    threads, state = th.get_num_threads(), th.get_rng_state()
    assert precision.time_network(32, [16, 16], CPU, bf16=True) > 0
    assert th.get_num_threads() == threads
    assert th.equal(th.get_rng_state(), state)


@pytest.mark.parametrize("outputs", [2, precision.MIN_OUTPUTS])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_outputs_are_float32_under_autocast(layer_norm: bool, outputs: int) -> None:
    """A Q value of -20.06 is not a number of bf16, whose neighbours of it are 0.125 apart."""
    norm = [nn.LayerNorm(40)] if layer_norm else []
    network = nn.Sequential(nn.Linear(3, 40), *norm, nn.ReLU(), nn.Linear(40, outputs))
    with th.no_grad():
        for parameter in (network[-1].weight, network[-1].bias):
            parameter.zero_()
        network[-1].bias += -20.06
    model = SimpleNamespace(options=Options(precision="bf16"))
    with th.autocast("cpu", th.bfloat16):
        single = FastUpdate.evaluate(model, network, th.ones(4, 3))
        batched = BatchedMLP([network])(th.ones(4, 3))
    for values in (single, batched):
        assert values.dtype == th.float32
        assert th.allclose(values, th.tensor(-20.06))


@pytest.mark.parametrize(("outputs", "exact"), [(2, True), (precision.MIN_OUTPUTS, False)])
def test_layers_before_an_activation_are_float32_if_they_have_few_outputs(outputs: int, exact: bool) -> None:
    layers = [nn.Linear(8, outputs), nn.Tanh()]
    assert precision.is_output(layers[0], layers) == exact
    with th.autocast("cpu", th.bfloat16):
        product = precision.multiply(F.linear, th.ones(4, 8), layers[0].weight, exact=exact)
    assert product.dtype == (th.float32 if exact else th.bfloat16)


@pytest.mark.parametrize(("has_units", "chosen"), [(True, "bf16"), (False, "float32")])
def test_a_run_keeps_the_choice_when_it_is_resumed(rlher, monkeypatch, has_units: bool, chosen: str) -> None:
    monkeypatch.setattr(precision, "MIN_BATCH", 16)
    monkeypatch.setattr(precision, "MIN_WIDTH", 16)
    monkeypatch.setattr(precision, "has_bf16_units", lambda device: has_units)
    done = rlher("train", "algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", *TINY, "total_timesteps=60")
    assert done.code == 0, done.err
    assert ("precision bf16" in done.err) == has_units
    monkeypatch.setattr(precision, "has_bf16_units", lambda device: not has_units)
    folder = Path("logs/dqn/BitFlipping-v0_1")
    assert rlher("train", "--resume", str(folder), "total_timesteps=+20").code == 0
    assert yaml.safe_load((folder / "config.yaml").read_text())["engine"]["precision"] == chosen


def test_auto_is_float32_where_the_update_step_is_another_ones(rlher) -> None:
    words = ("algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", *TINY, "engine=sb3", "engine.precision=auto")
    assert rlher("train", *words, "total_timesteps=60").code == 0
    config = yaml.safe_load(Path("logs/dqn/BitFlipping-v0_1/config.yaml").read_text())
    assert config["engine"]["precision"] == "float32"
