"""Sweeps (`rlher train -m`): runs side by side, skipped if finished, resumed if not, and the table at the end."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from same_run import differences

from rlher.jobs import job_pool
from rlher.run import run_folder
from tests.conftest import TINY
from tests.support.terminal import run_on_terminal
from tests.support.workers import wait_for

SMALL = (
    "algo=dqn",
    "env=BitFlipping-v0",
    "env.kwargs.n_bits=4",
    "recipe=null",
    *TINY,
    "total_timesteps=60",
    "eval.freq=30",
)
LONG = (*SMALL, "total_timesteps=900", "eval.freq=300", "checkpoint.freq=300")
RLHER = (sys.executable, "-m", "rlher.cli.main")


@pytest.fixture
def train_sweep(rlher, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Run `rlher train -m` in this process."""
    monkeypatch.setattr(job_pool.LocalTask, "run", lambda task: task.job.function())
    return lambda *words: rlher("train", "-m", *SMALL, *words)


def status(folder: Path) -> dict[int, str]:
    """Return the status of each run, by seed."""
    by_seed = {}
    for result in sorted(folder.glob("logs/*/*/result.json")):
        seed = json.loads((result.parent / "meta.json").read_text())["seed"]
        assert seed not in by_seed, "a seed was trained twice"
        by_seed[seed] = json.loads(result.read_text())["status"]
    return by_seed


def test_finished_runs_are_skipped(train_sweep, tmp_path: Path) -> None:
    assert train_sweep("seed=0,1").code == 0
    assert status(tmp_path) == {0: "finished", 1: "finished"}
    for meta in tmp_path.glob("logs/dqn/*/meta.json"):  # as if a key had been added to rlher since
        meta.write_text(re.sub(r' *"algo.weight_decay": 0.0,\n', "", meta.read_text()))
        assert "algo.weight_decay" not in meta.read_text()
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("logs/dqn/*/*")}
    second = train_sweep("seed=range(3)", "--workers", "2", "threads=2", "eval.keep_models=true")
    assert second.code == 0, second.err
    assert status(tmp_path) == {0: "finished", 1: "finished", 2: "finished"}
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert re.search(r"BitFlipping-v0 +dqn, future +3 ", second.out), "the table of rlher compare"


def test_another_experiment_is_not_skipped(train_sweep, tmp_path: Path) -> None:
    assert train_sweep("seed=0").code == 0
    done = train_sweep("algo.gamma=0.9,0.95", "seed=0", "json=true")
    assert done.code == 0
    runs = [json.loads(line) for line in done.out.splitlines()[-2:]]  # after those of the workers
    assert [run["status"] for run in runs] == ["finished"] * 2
    assert len(list(tmp_path.glob("logs/dqn/BitFlipping-v0_*"))) == 3


@pytest.mark.slow
def test_runs_of_one_experiment_are_trained_once(train_sweep, tmp_path: Path) -> None:
    assert train_sweep("threads=1,2").code == 0
    assert "left out algo=dqn" in train_sweep("seed=0,0").err
    assert status(tmp_path) == {0: "finished"}
    assert train_sweep("logs=one,two").code == 0
    assert len(list(tmp_path.glob("*/dqn/BitFlipping-v0_1"))) == 3


def test_a_run_that_exits_has_failed(train_sweep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A callback, environment or library may call sys.exit(0)."""
    monkeypatch.setattr("rlher.training.evaluator.Evaluator.evaluate_final", lambda *_: sys.exit(0))
    for _ in ("trained", "resumed"):
        done = train_sweep("seed=0,1")
        assert done.code == 1
        assert "SystemExit: 0" in done.err
        assert "finished" not in status(tmp_path).values()


def test_an_unfinished_run_is_waited_for_and_resumed(train_sweep, rlher, monkeypatch, tmp_path: Path) -> None:
    """A sweep that is started again at once after SIGKILL, while its runs write their last checkpoint."""
    with monkeypatch.context() as patch:
        patch.setattr("rlher.training.evaluator.Evaluator.evaluate_final", raise_interrupt)
        assert rlher("train", *SMALL, "threads=1").code == 130
    assert status(tmp_path) == {0: "interrupted"}
    run = tmp_path / "logs/dqn/BitFlipping-v0_1"
    locked = run_folder.locked(run)
    locked.__enter__()
    threading.Timer(1.5, locked.__exit__, [None, None, None]).start()
    assert train_sweep("seed=0,1", "tensorboard=true").code == 0
    assert status(tmp_path) == {0: "finished", 1: "finished"}
    assert [resume["timesteps"] for resume in json.loads((run / "meta.json").read_text())["resumed"]] == [60]
    assert list(run.rglob("events.out.tfevents*")), "keys that may change are those of the new command"


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_failed_run_does_not_stop_the_others(train_sweep, tmp_path: Path) -> None:
    done = train_sweep("algo=dqn,sac,dqn", "seed=0")
    assert done.code == 2
    assert status(tmp_path) == {0: "finished"}
    assert "dqn, future" in done.out


@pytest.mark.parametrize("words", [("-m", "algo.gamma=0.9,7"), ("--workers", "2")], ids=["invalid", "no sweep"])
def test_a_wrong_sweep_is_refused_before_the_first_run(rlher, words: tuple[str, ...]) -> None:
    assert rlher("train", *SMALL, *words).code == 2
    assert not Path("logs").exists()


def test_a_folder_that_cannot_be_written_is_refused_once(rlher, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    done = rlher("train", "-m", *SMALL, "seed=0,1", "--workers", "2")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1


@pytest.mark.slow
def test_sweep_continues_after_ctrl_c_and_kill(rlher, tmp_path: Path) -> None:
    """The runs end as if nothing had happened, wherever they were stopped."""
    command = [*RLHER, "train", "-m", *LONG, "seed=0,1,2", "--workers", "2"]
    for stop in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
        before = checkpoints(tmp_path)
        wait_for(lambda: checkpoints(tmp_path) - before)  # noqa: B023
        if stop == signal.SIGINT:
            os.killpg(process.pid, stop)  # as a terminal does
            assert process.wait(30) == 130
            assert re.search(r" seed=\d interrupted ", process.stderr.read(), re.MULTILINE)  # type: ignore[union-attr]
            wait_for(lambda: not workers_of(process.pid), 30)  # noqa: B023
        else:  # the next command waits for the runs that still write a checkpoint
            process.kill()
            process.wait()
        assert "finished" not in list(status(tmp_path).values())[:2]
    code, shown = run_on_terminal(command, tmp_path)
    assert code == 0, shown
    assert "Traceback" not in shown
    assert re.search(r"seed=2\S*\W+finished\W+[\d,]+\W", shown), "the live table"
    assert status(tmp_path) == {seed: "finished" for seed in range(3)}
    assert rlher("train", *LONG, "threads=1", "--logs", "alone").code == 0
    run = next(meta.parent for meta in tmp_path.glob("logs/*/*/meta.json") if json.loads(meta.read_text())["seed"] == 0)
    assert differences(tmp_path / "alone/dqn/BitFlipping-v0_1", run) == []


def checkpoints(folder: Path) -> set[Path]:
    return set(folder.glob("logs/dqn/*/checkpoints/*"))


def workers_of(group: int) -> list[str]:
    """Return the processes of a session that are training."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=,args=", "-s", str(group)], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if "defunct" not in line]


@pytest.mark.slow
def test_killed_worker_is_reported(tmp_path: Path) -> None:
    source = "import os\nfrom stable_baselines3.common.callbacks import BaseCallback\nclass Kill(BaseCallback):\n"
    source += "    def _on_step(self):\n        return self.model.seed or os.kill(os.getpid(), 9)\n"
    (tmp_path / "killing.py").write_text(source)
    command = [*RLHER, "train", "-m", *SMALL, "seed=0,1", "--workers", "2", "callbacks=[killing:Kill]"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "killed by SIGKILL" in done.stderr
    assert status(tmp_path) == {1: "finished"}
