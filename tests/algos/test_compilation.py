"""Compiled losses give the same numbers, and fall back to uncompiled code."""

import json
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch as th
from torch._inductor import config
from torch.utils._pytree import tree_flatten, tree_unflatten

from rlher.algos import compilation
from rlher.algos.compilation import choose_compilation, compile_with_fallback
from rlher.algos.fast_update import FastUpdate
from rlher.algos.options import UpdateOptions
from tests.algos.test_faithful import require_same
from tests.conftest import TINY
from tests.support.models import ours, theirs, train, weights
from tests.support.tiers import slow_except


def test_a_failed_compilation_falls_back_to_the_function(monkeypatch, capsys) -> None:
    calls = []

    def compiler(function, **kwargs):
        def fail(*arguments):
            calls.append("compiled")
            raise RuntimeError("no compiler\nand much more")

        return fail

    monkeypatch.setattr(th, "compile", compiler)
    double = compile_with_fallback(lambda x: 2 * x)
    assert [double(3), double(4)] == [6, 8]
    assert calls == ["compiled"], "compiled only once"
    assert capsys.readouterr().err == "rlher: losses are not compiled (RuntimeError: no compiler)\n"


def test_an_error_of_the_function_itself_is_raised(monkeypatch) -> None:
    monkeypatch.setattr(th, "compile", lambda function, **kwargs: function)
    with pytest.raises(ZeroDivisionError):
        compile_with_fallback(lambda x: 1 / x)(0)


@pytest.mark.parametrize("name", slow_except(["dqn"], ["sac", "dqn"]))
def test_updates_without_a_compiler_equal_sb3s(capsys, name) -> None:
    mine, other = ours(name, options=UpdateOptions(compile=True)), theirs(name)
    with config.patch({"cpp.cxx": ("/nowhere/g++",), "force_disable_caches": True}):
        for model in (mine, other):
            train(model, 2)
    require_same(mine, other)
    assert "not compiled" in capsys.readouterr().err


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


@pytest.mark.parametrize("name", ["sac", "tqc", "td3", "dqn"])
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


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_failure_in_a_later_call_falls_back(monkeypatch, capsys, cuda_graph) -> None:
    def compiler(function, **kwargs):
        def fail_at_three(x):
            if x == 3:
                raise RuntimeError("the graph's memory is gone")
            return function(x)

        return fail_at_three

    monkeypatch.setattr(th, "compile", compiler)
    double = compile_with_fallback(lambda x: 2 * x, cuda_graph=cuda_graph)
    assert [double(x) for x in (1, 2, 3, 4, 3)] == [2, 4, 6, 8, 6]
    assert capsys.readouterr().err == "rlher: losses are not compiled (RuntimeError: the graph's memory is gone)\n"


def test_the_memory_of_a_failed_call_is_freed_before_the_fallback(monkeypatch) -> None:
    alive = []

    def compiler(function, **kwargs):
        def fail():
            large = th.zeros(10)
            alive.append(weakref.ref(large))
            raise RuntimeError("out of memory")

        return fail

    monkeypatch.setattr(th, "compile", compiler)
    assert compile_with_fallback(lambda: [each() for each in alive])() == [None]


@pytest.mark.parametrize(
    ("mode", "updates", "compiler", "decision", "reason"),
    [
        ("off", 10**9, "g++", False, "not compiled"),
        ("auto", 10, "g++", False, "engine.compile=on"),
        ("auto", 10**9, "g++", True, "g++"),
        ("auto", 10**9, None, False, "no C++ compiler"),
        ("on", 10, "g++", True, "g++"),
        ("on", 10, None, False, "no C++ compiler"),
    ],
)
def test_choose_compilation(monkeypatch, mode, updates, compiler, decision, reason) -> None:
    monkeypatch.setattr(compilation, "find_compiler", lambda: compiler)
    found, line = choose_compilation(mode, updates)
    assert found is decision
    assert reason in line


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


PROGRAM = """
import sys
from rlher.cli.main import main

assert main(sys.argv[1:]) == 0
unneeded = ("torch._dynamo", "scipy.stats", "pandas", "matplotlib", "sb3_contrib", "optuna", "imageio_ffmpeg")
assert not [name for name in unneeded if name in sys.modules]
"""


@pytest.mark.slow
def test_a_run_imports_only_what_it_needs(tmp_path: Path) -> None:
    words = ["train", "algo=ddpg", "env=FetchReach-v4", "recipe=null", *TINY, "total_timesteps=120"]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "logs/ddpg/FetchReach-v4_1/result.json").read_text())["status"] == "finished"
