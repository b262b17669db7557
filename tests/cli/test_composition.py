"""The command lines of the runs of a sweep."""

from pathlib import Path

import pytest

from rlher.cli import command_line
from rlher.config.compose import compose
from rlher.config.training import TrainConfig
from rlher.jobs.sweep import distinct_runs


def test_a_run_of_a_sweep_has_a_command_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("total_timesteps: 100\n")
    words = ("--workers", "2", "algo=dqn", "env=BitFlipping-v0", "her=future,final", "recipe=mine.yaml,null")
    line = command_line.parse("train", ["-m", *words])
    combinations = line.combinations()
    runs = distinct_runs(combinations, [compose(TrainConfig, overrides) for overrides in combinations])
    assert [run.name for run in runs][:2] == ["her=future recipe=mine.yaml", "her=future recipe=null"]
    common = "rlher train algo=dqn env=BitFlipping-v0"
    assert [run.command_line for run in runs] == [
        f"{common} her={her} recipe={recipe}" for her in ("future", "final") for recipe in ("mine.yaml", "null")
    ]
