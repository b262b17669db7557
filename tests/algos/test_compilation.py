"""Compiled losses give the same numbers, and fall back to uncompiled code."""

import shutil

import pytest
import torch as th

from rlher.algos.compilation import compile_with_fallback
from tests.algos.test_faithful import require_same
from tests.support.models import ours, theirs, train, weights


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("name", ["tqc", "dqn"])
def test_compiled_updates_equal_sb3s(capsys, name) -> None:
    mine, other = ours(name, compile=True), theirs(name)
    for model in (mine, other):
        train(model, 20)
    require_same(mine, other)
    assert "not compiled" not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("failing", [1, 3])
def test_a_failure_of_a_call_falls_back_to_the_function(monkeypatch, capsys, failing) -> None:
    def compiler(function, **kwargs):
        def compiled(x):
            if x == failing:
                raise RuntimeError("no compiler")
            return function(x)

        return compiled

    monkeypatch.setattr(th, "compile", compiler)
    double = compile_with_fallback(lambda x: 2 * x)
    assert [double(x) for x in (1, 2, 3, 4, 3)] == [2, 4, 6, 8, 6]
    assert capsys.readouterr().err.count("not compiled") == 1


def test_bf16_gives_similar_updates_and_float32_weights() -> None:
    float32, bf16 = (ours("sac", bf16=value) for value in (False, True))
    before = {key: value.clone() for key, value in weights(float32).items()}
    for model in (float32, bf16):
        train(model, 20)
    moved = th.cat([(value - before[key]).flatten() for key, value in weights(float32).items()])
    moved_bf16 = th.cat([(value - before[key]).flatten() for key, value in weights(bf16).items()])
    assert moved_bf16.dtype == th.float32
    assert not th.equal(moved, moved_bf16)
    assert th.cosine_similarity(moved, moved_bf16, dim=0) > 0.9
