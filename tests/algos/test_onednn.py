"""Losses with products by oneDNN give SB3's weights."""

import pytest
import torch as th
from torch import nn

from rlher.algos import compilation, onednn
from rlher.algos.onednn import has_onednn, linear
from rlher.algos.options import UpdateOptions
from tests.algos.test_faithful import require_same
from tests.support.models import ours, theirs, train
from tests.support.tiers import slow_except

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
@pytest.mark.parametrize(("inputs", "outputs"), [(35, 256), (256, 1)])
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
@pytest.mark.parametrize("name", ["td3", "tqc", "dqn"])
@pytest.mark.parametrize("compiled", slow_except([False], [False, True]))
def test_updates_give_sb3s_weights(name: str, compiled: bool, products, capsys) -> None:
    if compiled and compilation.find_compiler() is None:
        pytest.skip("no C++ compiler")
    mine, other = ours(name, options=UpdateOptions(onednn=True, compile=compiled)), theirs(name)
    for model in (mine, other):
        train(model, 50)
    require_same(mine, other)
    assert compiled or len(products) >= 100, "compiled code does not call the watched function"
    assert "not compiled" not in capsys.readouterr().err


@needs_onednn
def test_acting_calls_torch_so_that_evaluation_processes_give_the_same_numbers(products) -> None:
    model, plain = ours("td3", options=UpdateOptions(onednn=True)), ours("td3")
    obs = {key: value.repeat(300, axis=0) for key, value in model.env.reset().items()}
    products.clear()
    assert (model.predict(obs, deterministic=True)[0] == plain.predict(obs, deterministic=True)[0]).all()
    assert not products
