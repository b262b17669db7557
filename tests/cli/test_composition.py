"""The commands and the exit code of a sweep."""

from pathlib import Path

import pytest

from rlher.cli import main
from rlher.cli.commands import load_command
from rlher.core.signals import EXIT_INTERRUPTED


def test_a_job_of_a_sweep_has_a_command_of_its_own(rlher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("total_timesteps: 100\n")
    jobs: list = []
    monkeypatch.setattr("rlher.jobs.sweep.train_sweep", lambda runs: (jobs.extend(runs) or runs, EXIT_INTERRUPTED))
    words = ("--workers", "2", "algo=dqn", "env=BitFlipping-v0", "her=future,final", "recipe=mine.yaml,null")
    assert rlher("train", "-m", *words).code == EXIT_INTERRUPTED
    assert [job.name for job in jobs][:2] == ["her=future recipe=mine.yaml", "her=future recipe=null"]
    common = "rlher train algo=dqn env=BitFlipping-v0"
    assert [job.command for job in jobs] == [
        f"{common} her={her} recipe={recipe}" for her in ("future", "final") for recipe in ("mine.yaml", "null")
    ]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ({"algos": 0, "envs": 2, "strategies": 1}, ["algos", "envs", "strategies"]),
        ({"algos": 130, "envs": 0}, ["algos"]),
    ],
)
def test_sweep_returns_the_largest_exit_code_and_ends_at_an_interrupt(monkeypatch, codes: dict, expected: list) -> None:
    seen = []
    module = load_command("list").module
    monkeypatch.setattr(module, "run", lambda config: seen.append(config.what) or codes[config.what])
    code = main.run(["list", "-m", f"what={','.join(codes)}"])
    assert (seen, code) == (expected, max(codes.values()))
