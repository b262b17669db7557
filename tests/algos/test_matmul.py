"""Losses with products by oneDNN give SB3's weights, and a run keeps what it chose."""

from pathlib import Path

import pytest
import torch as th
import yaml
from torch import nn

from rlher.algos import ALGORITHMS, compilation, matmul
from rlher.algos.layer_norm import with_layer_norm
from rlher.algos.matmul import choose_matmul, evaluate, has_onednn, linear
from rlher.algos.options import Options
from rlher.core.errors import UserError
from tests.algos.test_faithful import require_same
from tests.conftest import TINY
from tests.support.models import THEIRS, ours, theirs, train
from tests.support.tiers import slow_except

CPU = th.device("cpu")
ONEDNN = Options(onednn=True)
needs_onednn = pytest.mark.skipif(not has_onednn(), reason="torch without oneDNN")


@pytest.fixture
def products(monkeypatch) -> list[tuple[int, ...]]:
    """Return the shapes of the weights that oneDNN multiplied, filled while the test runs."""
    shapes, apply = [], matmul._Linear.apply

    def watched(x, weight, bias=None):
        shapes.append(tuple(weight.shape))
        return apply(x, weight, bias)

    monkeypatch.setattr(matmul._Linear, "apply", watched)
    return shapes


@needs_onednn
@pytest.mark.parametrize(("inputs", "outputs"), [(35, 256), (300, 17), (256, 1), (3, 64)])
@pytest.mark.parametrize("frozen", [False, True])
def test_value_and_gradients_equal_those_of_torch(inputs: int, outputs: int, frozen: bool) -> None:
    x, weight, bias, slope = th.randn(70, inputs), th.randn(outputs, inputs), th.randn(outputs), th.randn(70, outputs)
    for tensor in (x,) if frozen else (x, weight, bias):
        tensor.requires_grad_()
    found = []
    for function in (linear, nn.functional.linear):
        value = function(x, weight, bias)
        leaves = [tensor for tensor in (x, weight, bias) if tensor.requires_grad]
        found.append([value, *th.autograd.grad(value, leaves, slope)])
    for mine, theirs_ in zip(*found, strict=True):
        assert th.allclose(mine, theirs_, atol=1e-4)


@needs_onednn
def test_evaluate_equals_the_network(products) -> None:
    network = nn.Sequential(
        nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 1)
    )
    x = th.randn(9, 20)
    assert th.allclose(evaluate(network, x, network.parameters(), linear), network(x), atol=1e-5)
    assert products == [(32, 20), (24, 32)], "the last layer has a single output"


@needs_onednn
@pytest.mark.parametrize("name", THEIRS)
def test_fifty_updates_give_sb3s_weights(name: str, products) -> None:
    mine, other = ours(name, options=ONEDNN), theirs(name)
    for model in (mine, other):
        train(model, 50)
    require_same(mine, other)
    assert len(products) >= 100


@needs_onednn
@pytest.mark.skipif(compilation.find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("name", slow_except(["dqn"], ["tqc", "dqn", "td3"]))
def test_compiled_updates_give_sb3s_weights(capsys, name: str) -> None:
    mine, other = ours(name, options=Options(onednn=True, compile=True)), theirs(name)
    for model in (mine, other):
        train(model, 20)
    require_same(mine, other)
    assert "not compiled" not in capsys.readouterr().err


@needs_onednn
@pytest.mark.parametrize("options", [{}, {"target_critics": 2}])
def test_critics_with_layer_norm_are_the_same(options: dict) -> None:
    policy = with_layer_norm(ALGORITHMS["td3"].load().policy_aliases["MultiInputPolicy"])
    models = [
        ours("td3", policy=policy, policy_kwargs={"n_critics": 3}, options=Options(onednn=onednn, **options))
        for onednn in (False, True)
    ]
    for model in models:
        train(model, 20)
    require_same(*models)


@needs_onednn
@pytest.mark.parametrize("name", THEIRS)
def test_acting_calls_torch_so_that_evaluation_processes_give_the_same_numbers(name: str, products) -> None:
    model, plain = ours(name, options=ONEDNN), ours(name)
    obs = {key: value.repeat(300, axis=0) for key, value in model.env.reset().items()}
    products.clear()
    assert (model.predict(obs, deterministic=True)[0] == plain.predict(obs, deterministic=True)[0]).all()
    assert not products


@pytest.mark.parametrize(
    ("mode", "net_arch", "onednn", "chosen"),
    [
        ("auto", [256, 256], 0.5, "onednn"),
        ("auto", [64, 256], 0.5, "onednn"),
        ("auto", [256, 256], 0.9, "torch"),
        ("auto", [64, 64], 0.1, "torch"),
        ("auto", [], 0.1, "torch"),
        ("torch", [256, 256], 0.1, "torch"),
        ("onednn", [8], 9.0, "onednn"),
    ],
)
def test_onednn_if_it_is_faster(monkeypatch, mode: str, net_arch: list[int], onednn: float, chosen: str) -> None:
    monkeypatch.setattr(matmul, "has_onednn", lambda: True)
    monkeypatch.setattr(matmul, "_time_products", lambda *arguments: (1.0, onednn))
    assert choose_matmul(mode, CPU, 256, net_arch)[0] == chosen


@pytest.mark.parametrize(("device", "available"), [("cuda", True), ("cpu", False)])
def test_auto_is_torch_where_onednn_is_missing(monkeypatch, device: str, available: bool) -> None:
    monkeypatch.setattr(matmul, "has_onednn", lambda: available)
    assert choose_matmul("auto", th.device(device), 256, [256])[0] == "torch"
    with pytest.raises(UserError, match=r"engine\.matmul=auto"):
        choose_matmul("onednn", th.device(device), 256, [256])


@needs_onednn
def test_measuring_leaves_random_numbers() -> None:
    state = th.get_rng_state()
    assert all(seconds > 0 for seconds in matmul._time_products(32, 256, 1))
    assert th.equal(th.get_rng_state(), state)


@needs_onednn
def test_a_run_keeps_the_choice_when_it_is_resumed(rlher, monkeypatch, products) -> None:
    monkeypatch.setattr(matmul, "_time_products", lambda *arguments: (1.0, 0.1))
    words = ("algo=dqn", "env=BitFlipping-v0", "env.n_bits=20", *TINY, "algo.net_arch=[256]", "total_timesteps=60")
    done = rlher("train", *words)
    assert done.code == 0, done.err
    assert "oneDNN" in done.err
    assert products
    monkeypatch.setattr(matmul, "_time_products", lambda *arguments: (1.0, 9.0))
    folder = Path("logs/dqn/BitFlipping-v0_1")
    products.clear()
    assert rlher("train", "--resume", str(folder), "total_timesteps=+20").code == 0
    assert products
    assert yaml.safe_load((folder / "config.yaml").read_text())["engine"]["matmul"] == "onednn"


@pytest.mark.parametrize("keys", [{"precision": "bf16"}, {"name": "sb3"}])
def test_it_is_for_float32_and_our_update_step(rlher, monkeypatch, keys: dict) -> None:
    monkeypatch.setattr(matmul, "_time_products", lambda *arguments: (1.0, 0.1))
    words = ("algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", *TINY, "algo.net_arch=[256]", "total_timesteps=60")
    done = rlher("train", *words, *(f"engine.{key}={value}" for key, value in keys.items()))
    assert done.code == 0, done.err
    assert "oneDNN" not in done.err
