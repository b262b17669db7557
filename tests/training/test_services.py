"""Services beside a run's own files: told the same numbers, and never in the way."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rlher.training.loggers import services
from tests.conftest import TINY

BITS = ("algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", "~tuned", *TINY, "total_timesteps=120", "eval.freq=40")


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "evaluations.csv").open() as file:
        return [{key: value for key, value in row.items() if key != "wall_seconds"} for row in csv.DictReader(file)]


class Remembering:
    """A service that keeps what it is told."""

    def __init__(self, run: Any) -> None:
        self.run, self.told, self.end = run, [], None
        made.append(self)

    def log(self, numbers: dict[str, float], step: int) -> None:
        self.told.append((step, numbers))

    def finish(self, result: dict[str, float], status: str) -> None:
        self.end = result, status


made: list[Remembering] = []


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> type[Remembering]:
    """Put a service of ours in the place of wandb."""
    made.clear()
    monkeypatch.setattr(services, "find_spec", lambda name: name)
    monkeypatch.setitem(services.SERVICES, "wandb", Remembering)
    return Remembering


def test_a_service_is_told_evaluations_losses_and_the_result(rlher, service) -> None:
    done = rlher("train", *BITS, "logger=wandb", "--json")
    assert done.code == 0, done.err
    result, (told,) = json.loads(done.out), made
    evaluated = {step: numbers["eval/mean_reward"] for step, numbers in told.told if "eval/mean_reward" in numbers}
    assert evaluated == {int(row["timesteps"]): float(row["mean_reward"]) for row in rows(Path(result["run"]))}
    assert any("train/loss" in numbers for _, numbers in told.told)
    assert not [value for _, numbers in told.told for value in numbers.values() if not isinstance(value, float)]
    final, status = told.end
    assert status == "finished"
    assert final["final/success_rate"] == result["success_rate"]
    assert final["final/best.mean_reward"] == result["best"]["mean_reward"]


def test_an_interrupted_run_is_told_as_one(rlher, service, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlher.training.callbacks.evaluation import Evaluate

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Evaluate, "run", stop)
    assert rlher("train", *BITS, "logger=wandb").code == 130
    assert made[0].end[1] == "interrupted"


@pytest.mark.parametrize("where", ["__init__", "log", "finish"])
def test_a_service_that_fails_is_left_alone(rlher, service, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def fail(*arguments: object) -> None:
        raise ConnectionError("no route to host\nand much more")

    monkeypatch.setattr(Remembering, where, fail)
    done = rlher("train", *BITS, "logger=wandb")
    assert done.code == 0
    sentence = "rlher: nothing more is logged to wandb, the run goes on. ConnectionError: no route to host."
    assert done.err.splitlines().count(sentence) == 1
    assert "and much more" not in done.err
    assert len(rows(Path("logs/dqn/BitFlipping-v0_1"))) == 3


def test_a_service_changes_no_number_of_the_run(rlher, service, monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    import numpy as np
    import torch as th

    def noisy(self: Remembering, numbers: dict[str, float], step: int) -> None:
        random.random(), np.random.rand(), th.rand(1)

    monkeypatch.setattr(Remembering, "log", noisy)
    for words in ((), ("logger=wandb",)):
        assert rlher("train", *BITS, *words).code == 0
    one, two = (rows(Path(f"logs/dqn/BitFlipping-v0_{number}")) for number in (1, 2))
    assert one == two


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_what_is_not_installed_is_told_before_the_run(rlher, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(services, "find_spec", lambda module: None)
    done = rlher("train", *BITS, f"logger={name}")
    assert done.code == 2
    assert f"pip install 'rlher[{name}]'" in done.err
    assert not Path("logs").exists()


def test_mlflow_keeps_a_run_in_its_folder(rlher, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    done = rlher("train", *BITS, "logger=mlflow", "seed=7", "--json")
    assert done.code == 0, done.err
    assert "nothing more is logged" not in done.err
    result = json.loads(done.out)
    run = Path(result["run"])
    client = MlflowClient(tracking_uri=f"sqlite:///{run.resolve()}/mlflow.db")
    (kept,) = client.search_runs([client.get_experiment_by_name("rlher").experiment_id])
    assert (kept.info.run_name, kept.info.status) == ("dqn/BitFlipping-v0_1", "FINISHED")
    assert kept.data.params["seed"] == "7"
    assert kept.data.params["her.goal_selection_strategy"] == "future"
    assert kept.data.metrics["final/success_rate"] == result["success_rate"]
    history = client.get_metric_history(kept.info.run_id, "eval/mean_reward")
    assert [(each.step, each.value) for each in history] == [
        (int(row["timesteps"]), float(row["mean_reward"])) for row in rows(run)
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["logs"], "nothing beside the runs"


def test_wandb_keeps_a_run_in_its_folder(rlher, tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb")
    done = rlher("train", *BITS, "logger=wandb")
    assert done.code == 0, done.err
    assert "nothing more is logged" not in done.err
    wandb.teardown()  # as at the end of a process: its own one writes behind our back
    (record,) = Path("logs/dqn/BitFlipping-v0_1").glob("wandb/offline-run-*/*.wandb")
    content = record.read_bytes()
    for told in (b"eval/success_rate", b"train/loss", b"final/best.success_rate", b"n_sampled_goal"):
        assert told in content
    assert [path.name for path in tmp_path.iterdir()] == ["logs"], "nothing beside the runs"
