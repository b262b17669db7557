"""Evaluations in processes beside training: the same numbers as without, whatever happens to process or run."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hostile_envs import FailingWorker, LineEnv
from same_run import differences

from rlher.config.training import EvalConfig, RunConfig
from rlher.training import auto_values
from tests.conftest import TINY

BITS = ("algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=5", *TINY, "eval.final_episodes=60")
SAC = ("algo=sac", *TINY, "algo.train_freq=5", "algo.gradient_steps=1", "total_timesteps=150", "eval.freq=50")
LINE = (*SAC, "env=FailingWorker-v0", "env.modules=[hostile_envs]")


@pytest.fixture
def train_line(rlher, tmp_path: Path) -> Callable[..., Any]:
    """Train where the environment of a worker process fails some times, and that of the main process never."""

    def train(how: str, times: int, *words: str):
        marks = tmp_path / f"{how}{times}"
        marks.mkdir(exist_ok=True)
        kwargs = f"env.kwargs={{how:{how},times:{times},marks:{marks},at:1}}"
        return rlher("train", *LINE, kwargs, "eval.workers=1", *words)

    return train


def rows(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "evaluations.csv").drop(columns="wall_seconds")


def test_the_results_do_not_depend_on_the_number_of_processes(rlher) -> None:
    for count in range(3):
        words = ("total_timesteps=130", "eval.freq=60", "eval.keep_models=true", "eval.episodes=30")
        assert rlher("train", *BITS, *words, f"eval.workers={count}").code == 0
    one, *others = (Path(f"logs/dqn/BitFlipping-v0_{number}") for number in (1, 2, 3))
    for other in others:
        assert differences(one, other) == []
        assert {path.name for path in other.glob("models/*")} == {"60.zip", "120.zip"}


def test_evaluations_leave_the_random_numbers_of_training_alone(rlher, monkeypatch) -> None:
    """Of an environment that draws from NumPy's global generator, and whose instances share an action space."""
    step, shared = FailingWorker.step, LineEnv().action_space
    monkeypatch.setattr(LineEnv, "action_space", property(lambda self: shared, lambda *_: None), raising=False)
    monkeypatch.setattr(FailingWorker, "step", lambda self, action: step(self, action + np.random.normal(0, 0.1, 1)))
    for frequency in (50, 150):
        words = (*LINE, "env.kwargs={times:0}", "eval.workers=0", f"eval.freq={frequency}")
        assert rlher("train", *words).code == 0
    often, once = (Path(f"logs/sac/FailingWorker-v0_{number}") for number in (1, 2))
    assert "last_model.zip" not in differences(often, once)
    assert rows(often).iloc[-1].equals(rows(once).iloc[-1])


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("kill", "SIGKILL"),
        pytest.param("hang", "no answer in 1 s", marks=pytest.mark.slow),
        pytest.param("exit", "status 7", marks=pytest.mark.slow),
    ],
)
def test_a_lost_process_is_replaced(train_line, how: str, reason: str) -> None:
    for times in (0, 1):
        done = train_line(how, times, "env.step_timeout=1")
        assert done.code == 0, done.err
        assert done.err.count("a new process replaces it") == times
        assert (reason in done.err) == (times > 0)
    assert differences(*(Path(f"logs/sac/FailingWorker-v0_{number}") for number in (1, 2))) == []


def test_too_many_lost_processes_end_the_run(train_line) -> None:
    assert train_line("kill", 100, "env.max_restarts=1").code == 1
    folder = Path("logs/sac/FailingWorker-v0_1")
    result = json.loads((folder / "result.json").read_text())
    assert result["status"] == "failed"
    assert "SIGKILL" in result["error"]
    assert (folder / "last_model.zip").exists()


def test_ctrl_c_waits_for_the_evaluation_in_progress(train_line, rlher, at_step) -> None:
    assert train_line("hang", 0, "logs=reference").code == 0
    at_step(90, lambda: os.kill(os.getpid(), signal.SIGINT))
    done = train_line("hang", 1, "env.step_timeout=1")  # in the evaluation that starts at step 50
    assert done.code == 130, done.err
    folder = Path("logs/sac/FailingWorker-v0_1")
    assert list(rows(folder).timesteps) == [50]
    assert (folder / "checkpoints/000000090").exists()
    assert rlher("train", "--resume", str(folder)).code == 0
    assert differences(Path("reference") / folder.relative_to("logs"), folder) == []


@pytest.mark.slow
def test_a_run_that_is_killed_in_an_evaluation_resumes_bit_for_bit(train_line, rlher, at_step) -> None:
    """The checkpoint at step 80 waits for the evaluation, which hangs at first."""
    assert train_line("hang", 0, "logs=reference", "checkpoint.freq=40").code == 0
    folder = Path("logs/sac/FailingWorker-v0_1")
    for steps in (70, 90):
        at_step(steps, lambda steps=steps: shutil.copytree(folder, f"killed{steps}" / folder))
    assert train_line("hang", 1, "env.step_timeout=1", "checkpoint.freq=40").code == 0
    assert differences(Path("reference") / folder.relative_to("logs"), folder) == []
    for killed, evaluated in (("killed70" / folder, False), ("killed90" / folder, True)):
        assert (killed / "evaluations.csv").exists() == evaluated
        assert rlher("train", "--resume", str(killed), "eval.workers=0", "--trust-code").code == 0
        assert differences(Path("reference") / folder.relative_to("logs"), killed) == []


@pytest.mark.parametrize(
    ("config", "available", "expected"),
    [
        (RunConfig(), 2, 2),
        (RunConfig(), 1, 0),
        (RunConfig(), 64, auto_values.MAX_EVAL_WORKERS),
        (RunConfig(threads=1), 2, 0),
        (RunConfig(threads=1, n_envs=2), 2, 0),
        (RunConfig(threads=1, eval=EvalConfig(workers=3)), 2, 3),
        (RunConfig(eval=EvalConfig(workers=0)), 2, 0),
    ],
)
def test_the_default_number_of_processes(monkeypatch, config: RunConfig, available: int, expected: int) -> None:
    monkeypatch.setattr(auto_values, "available_cores", lambda: available)
    assert auto_values.resolve_auto_values(config).eval.workers == expected
