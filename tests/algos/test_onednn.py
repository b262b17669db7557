"""Losses with products by oneDNN give SB3's weights."""

import pytest
import torch as th
from torch import nn

from rlher.algos import ALGORITHMS, compilation, onednn
from rlher.algos.networks import evaluate, with_layer_norm
from rlher.algos.onednn import has_onednn, linear
from rlher.algos.options import UpdateOptions
from tests.algos.test_faithful import require_same
from tests.support.models import THEIRS, ours, theirs, train
from tests.support.tiers import slow_except

ONEDNN = UpdateOptions(onednn=True)
needs_onednn = pytest.mark.skipif(not has_onednn(), reason="torch without oneDNN")


@pytest.fixture
def products(monkeypatch) -> list[tuple[int, ...]]:
    """Return the shapes of the weights that oneDNN multiplied, filled while the test runs."""
    shapes, apply = [], onednn._Linear.apply

    def watched(x, weight, bias=None):
        shapes.append(tuple(weight.shape))
        return apply(x, weight, bias)

    monkeypatch.setattr(onednn._Linear, "apply", watched)
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
    mine, other = ours(name, options=UpdateOptions(onednn=True, compile=True)), theirs(name)
    for model in (mine, other):
        train(model, 20)
    require_same(mine, other)
    assert "not compiled" not in capsys.readouterr().err


@needs_onednn
@pytest.mark.parametrize("options", [{}, {"target_critics": 2}])
def test_critics_with_layer_norm_are_the_same(options: dict) -> None:
    policy = with_layer_norm(ALGORITHMS["td3"].load().policy_aliases["MultiInputPolicy"])
    models = [
        ours("td3", policy=policy, policy_kwargs={"n_critics": 3}, options=UpdateOptions(onednn=use, **options))
        for use in (False, True)
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
