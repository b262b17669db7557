"""Compiled losses give the same numbers, and fall back to uncompiled code."""

import pytest
import torch as th
from torch.utils._pytree import tree_flatten, tree_unflatten

from rlher.algos import compilation
from rlher.algos.compilation import choose_compilation, compile_with_fallback
from rlher.algos.fast_update import FastUpdate
from rlher.algos.options import UpdateOptions
from tests.algos.test_faithful import require_same
from tests.support.models import ours, theirs, train, weights
from tests.support.tiers import slow_except


@pytest.mark.skipif(compilation.find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("name", slow_except(["dqn"], ["tqc", "dqn"]))
def test_compiled_updates_equal_sb3s(capsys, name) -> None:
    mine, other = ours(name, options=UpdateOptions(compile=True)), theirs(name)
    for model in (mine, other):
        train(model, 20)
    require_same(mine, other)
    assert "not compiled" not in capsys.readouterr().err


def simulated_cuda_graph(function, **kwargs):
    """Stand in for `torch.compile` with CUDA graphs: each call overwrites the outputs of the previous one."""
    memory: list[th.Tensor] = []

    def replay(*args):
        outputs, shape = tree_flatten(function(*args))
        memory.extend(outputs[len(memory) :])
        for kept, output in zip(memory, outputs, strict=True):
            kept.copy_(output)
        return tree_unflatten(memory, shape)

    return replay


@pytest.mark.parametrize("name", ["sac", "dqn"])
def test_updates_from_cuda_graphs_equal_sb3s(monkeypatch, name) -> None:
    monkeypatch.setattr(th, "compile", simulated_cuda_graph)
    monkeypatch.setattr(
        FastUpdate, "compile_if_enabled", lambda self, function: compile_with_fallback(function, cuda_graph=True)
    )
    mine, other = ours(name), theirs(name)
    for model in (mine, other):
        train(model, 20)
    require_same(mine, other)
    logged = {key: value for key, value in mine.logger.name_to_value.items() if key.endswith("loss")}
    assert logged == pytest.approx({key: other.logger.name_to_value[key] for key in logged}, rel=1e-3)


@pytest.mark.parametrize("failing", [1, 3])
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_failure_of_a_call_falls_back_to_the_function(monkeypatch, capsys, cuda_graph, failing) -> None:
    def compiler(function, **kwargs):
        def compiled(x):
            if x == failing:
                raise RuntimeError("no compiler")
            return function(x)

        return compiled

    monkeypatch.setattr(th, "compile", compiler)
    double = compile_with_fallback(lambda x: 2 * x, cuda_graph=cuda_graph)
    assert [double(x) for x in (1, 2, 3, 4, 3)] == [2, 4, 6, 8, 6]
    assert capsys.readouterr().err.count("not compiled") == 1


@pytest.mark.parametrize(
    ("mode", "updates", "compiler", "decision"),
    [
        ("off", 10**9, "g++", False),
        ("auto", 10, "g++", False),
        ("auto", 10**9, "g++", True),
        ("on", 10, "g++", True),
        ("on", 10, None, False),
    ],
)
def test_choose_compilation(monkeypatch, mode, updates, compiler, decision) -> None:
    monkeypatch.setattr(compilation, "find_compiler", lambda: compiler)
    assert choose_compilation(mode, updates)[0] is decision


def test_bf16_gives_similar_updates_and_float32_weights() -> None:
    float32, bf16 = (ours("sac", options=UpdateOptions(precision=precision)) for precision in ("float32", "bf16"))
    before = {key: value.clone() for key, value in weights(float32).items()}
    for model in (float32, bf16):
        train(model, 20)
    moved = th.cat([(value - before[key]).flatten() for key, value in weights(float32).items()])
    moved_bf16 = th.cat([(value - before[key]).flatten() for key, value in weights(bf16).items()])
    assert moved_bf16.dtype == th.float32
    assert not th.equal(moved, moved_bf16)
    assert th.cosine_similarity(moved, moved_bf16, dim=0) > 0.9
