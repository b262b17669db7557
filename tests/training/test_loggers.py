"""Trackers: they log what the run folder holds, and never affect the run."""

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch as th

from rlher.core import errors
from rlher.run.result import Status
from rlher.training import loggers as trackers
from tests.support.small_search import BITS


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")


def rows(run: str | Path) -> pd.DataFrame:
    return pd.read_csv(Path(run) / "evaluations.csv").drop(columns="wall_seconds")


class RecordingTracker:
    """A tracker that keeps logged values in memory, and draws random numbers."""

    def __init__(self, run: Any) -> None:
        self.logged, self.final, self.status = [], None, None
        created.append(self)

    def log(self, numbers: dict[str, float], step: int) -> None:
        self.logged.append((step, numbers))
        random.random(), np.random.rand(), th.rand(1)

    def finish(self, result: dict[str, float], status: Status) -> None:
        self.final, self.status = result, status


created: list[RecordingTracker] = []


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch) -> type[RecordingTracker]:
    """Replace wandb by a RecordingTracker."""
    created.clear()
    monkeypatch.setattr(errors, "find_spec", lambda name: name)
    monkeypatch.setitem(trackers.TRACKERS, "wandb", f"{__name__}:RecordingTracker")
    return RecordingTracker


def test_evaluations_losses_and_the_result_are_logged(rlher, tracker) -> None:
    done = rlher("train", *BITS, "logger=wandb", "--json")
    assert done.code == 0, done.err
    result, (logged,) = json.loads(done.out), created
    evaluated = {step: numbers["eval/mean_reward"] for step, numbers in logged.logged if "eval/mean_reward" in numbers}
    assert evaluated == rows(result["run"]).set_index("timesteps").mean_reward.to_dict()
    assert any("train/loss" in numbers for _, numbers in logged.logged)
    assert not [value for _, numbers in logged.logged for value in numbers.values() if not isinstance(value, float)]
    assert logged.status is Status.FINISHED
    assert logged.final["final/success_rate"] == result["success_rate"]
    assert logged.final["final/best.mean_reward"] == result["best"]["mean_reward"]


def test_the_status_of_an_interrupted_run_is_logged(rlher, tracker, at_step) -> None:
    at_step(60, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert rlher("train", *BITS, "logger=wandb").code == 130
    assert created[0].status is Status.INTERRUPTED


@pytest.mark.parametrize("where", ["log", "finish"])
def test_a_tracker_that_fails_does_not_affect_the_run(rlher, tracker, monkeypatch, where: str) -> None:
    def fail(*arguments: object) -> None:
        raise ConnectionError("no route to host\nand much more")

    monkeypatch.setattr(RecordingTracker, where, fail)
    done = rlher("train", *BITS, "logger=wandb")
    assert done.code == 0
    assert done.err.count("wandb") == 1, "one warning"
    assert "and much more" not in done.err
    assert len(rows("logs/dqn/BitFlipping-v0_1")) == 3


def test_a_tracker_does_not_change_the_random_numbers(rlher, tracker) -> None:
    for words in ((), ("logger=wandb",)):
        assert rlher("train", *BITS, *words).code == 0
    assert rows("logs/dqn/BitFlipping-v0_1").equals(rows("logs/dqn/BitFlipping-v0_2"))


def test_a_tracker_that_is_not_installed_is_refused_before_the_run(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda module: None)
    assert rlher("train", *BITS, "logger=wandb").code == 2
    assert not Path("logs").exists()


@pytest.mark.slow
def test_wandb_writes_into_the_run_folder(rlher, tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb")
    assert rlher("train", *BITS, "logger=wandb").code == 0
    wandb.teardown()  # wait for its background process to write
    (record,) = Path("logs/dqn/BitFlipping-v0_1").glob("wandb/offline-run-*/*.wandb")
    content = record.read_bytes()
    for key in (b"eval/success_rate", b"train/loss", b"final/best.success_rate", b"n_sampled_goal"):
        assert key in content
    assert [path.name for path in tmp_path.iterdir()] == ["logs"], "nothing outside the run folder"
