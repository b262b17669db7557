"""Compiling: the same numbers, decided by what it pays, and no harm where it cannot be had."""

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
from rlher.algos.fast_update import OwnUpdate
from rlher.algos.options import Options
from tests.algos.test_faithful import require_same
from tests.conftest import TINY
from tests.support.models import ours, theirs, train, weights


def test_a_function_that_cannot_be_compiled_runs_as_it_is(monkeypatch, capsys) -> None:
    calls = []

    def compiler(function, **kwargs):
        def fail(*arguments):
            calls.append("compiled")
            raise RuntimeError("no compiler\nand much more")

        return fail

    monkeypatch.setattr(th, "compile", compiler)
    double = compilation.compiled(lambda x: 2 * x)
    assert [double(3), double(4)] == [6, 8]
    assert calls == ["compiled"], "it is tried once"
    assert capsys.readouterr().err == "rlher: not compiled, RuntimeError: no compiler\n"


def test_an_error_of_the_function_itself_goes_on_up(monkeypatch) -> None:
    monkeypatch.setattr(th, "compile", lambda function, **kwargs: function)
    with pytest.raises(ZeroDivisionError):
        compilation.compiled(lambda x: 1 / x)(0)


@pytest.mark.parametrize("name", ["sac", "dqn"])
def test_without_a_compiler_the_update_is_sb3s_still(capsys, name) -> None:
    mine, other = ours(name, options=Options(compile=True)), theirs(name)
    with config.patch({"cpp.cxx": ("/nowhere/g++",), "force_disable_caches": True}):
        for model in (mine, other):
            train(model, 2)
    require_same(mine, other)
    assert "not compiled" in capsys.readouterr().err


@pytest.mark.skipif(compilation.find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("name", ["tqc", "dqn"])
def test_compiled_updates_are_sb3s(capsys, name) -> None:
    mine, other = ours(name, options=Options(compile=True)), theirs(name)
    for model in (mine, other):
        train(model, 20)
    require_same(mine, other)
    assert "not compiled" not in capsys.readouterr().err


def as_a_graph(function, **kwargs):
    """Return what replaying a CUDA graph is: outputs always in the same memory, which the next replay overwrites."""
    memory: list[th.Tensor] = []

    def replay(*args):
        outputs, shape = tree_flatten(function(*args))
        memory.extend(outputs[len(memory) :])
        for kept, output in zip(memory, outputs, strict=True):
            kept.copy_(output)
        return tree_unflatten(memory, shape)

    return replay


@pytest.mark.parametrize("name", ["sac", "tqc", "td3", "dqn"])
def test_updates_from_a_graph_are_sb3s(monkeypatch, name) -> None:
    monkeypatch.setattr(th, "compile", as_a_graph)
    monkeypatch.setattr(OwnUpdate, "phase", lambda self, function: compilation.compiled(function, graph=True))
    mine, other = ours(name), theirs(name)
    for model in (mine, other):
        train(model, 20)
    require_same(mine, other)
    logged = {key: value for key, value in mine.logger.name_to_value.items() if key.endswith("loss")}
    assert logged == pytest.approx({key: other.logger.name_to_value[key] for key in logged}, rel=1e-3)


@pytest.mark.parametrize("graph", [False, True])
def test_a_failure_after_many_calls_is_passed_over(monkeypatch, capsys, graph) -> None:
    def compiler(function, **kwargs):
        def sometimes(x):
            if x == 3:
                raise RuntimeError("the graph's memory is gone")
            return function(x)

        return sometimes

    monkeypatch.setattr(th, "compile", compiler)
    double = compilation.compiled(lambda x: 2 * x, graph=graph)
    assert [double(x) for x in (1, 2, 3, 4, 3)] == [2, 4, 6, 8, 6]
    assert capsys.readouterr().err == "rlher: not compiled, RuntimeError: the graph's memory is gone\n"


def test_a_failed_calls_memory_is_free_for_the_next(monkeypatch) -> None:
    alive = []

    def compiler(function, **kwargs):
        def fail():
            large = th.zeros(10)
            alive.append(weakref.ref(large))
            raise RuntimeError("out of memory")

        return fail

    monkeypatch.setattr(th, "compile", compiler)
    assert compilation.compiled(lambda: [each() for each in alive])() == [None]


@pytest.mark.parametrize(
    ("wanted", "updates", "compiler", "decision", "said"),
    [
        ("off", 10**9, "g++", False, "not compiled"),
        ("auto", 10, "g++", False, "10 updates would not pay"),
        ("auto", 10**9, "g++", True, "g++"),
        ("auto", 10**9, None, False, "no C++ compiler"),
        ("on", 10, "g++", True, "g++"),
        ("on", 10, None, False, "no C++ compiler"),
    ],
)
def test_decision(monkeypatch, wanted, updates, compiler, decision, said) -> None:
    monkeypatch.setattr(compilation, "find_compiler", lambda: compiler)
    found, sentence = compilation.decide(wanted, updates)
    assert found is decision
    assert said in sentence


def test_low_precision_moves_the_weights_alike_and_keeps_them_float32() -> None:
    exact, rough = (ours("sac", options=Options(precision=precision)) for precision in ("float32", "bf16"))
    before = {key: value.clone() for key, value in weights(exact).items()}
    for model in (exact, rough):
        train(model, 20)
    moved = th.cat([(value - before[key]).flatten() for key, value in weights(exact).items()])
    moved_roughly = th.cat([(value - before[key]).flatten() for key, value in weights(rough).items()])
    assert moved_roughly.dtype == th.float32
    assert not th.equal(moved, moved_roughly)
    assert th.cosine_similarity(moved, moved_roughly, dim=0) > 0.9


UNCOMPILED = """
import sys
from rlher.cli.main import main

assert main(sys.argv[1:]) == 0
assert "torch._dynamo" not in sys.modules
"""


def test_a_run_that_compiles_nothing_does_not_import_the_compiler(tmp_path: Path) -> None:
    words = ["train", "algo=ddpg", "env=FetchReach-v4", "~tuned", *TINY, "total_timesteps=120"]
    done = subprocess.run([sys.executable, "-c", UNCOMPILED, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "logs/ddpg/FetchReach-v4_1/result.json").read_text())["status"] == "finished"
