"""The commands and the exit code of a sweep."""

from pathlib import Path

import pytest

from rlher.cli import flags, main
from rlher.cli.commands import COMMANDS, Command
from rlher.config.command_keys import ListConfig
from rlher.jobs.sweep import distinct_runs


def test_a_run_of_a_sweep_has_a_command_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("total_timesteps: 100\n")
    words = ("--workers", "2", "algo=dqn", "env=BitFlipping-v0", "her=future,final", "recipe=mine.yaml,null")
    line = flags.parse("train", ["-m", *words])
    runs = distinct_runs(line.combinations(), line.configs())
    assert [run.name for run in runs][:2] == ["her=future recipe=mine.yaml", "her=future recipe=null"]
    common = "rlher train algo=dqn env=BitFlipping-v0"
    assert [run.command_line for run in runs] == [
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

    def run(config: ListConfig) -> int:
        """Record what would be listed."""
        seen.append(config.what)
        return codes[config.what]

    monkeypatch.setitem(COMMANDS, "list", Command("list", run, ListConfig))
    code = main.dispatch(["list", "-m", f"what={','.join(codes)}"])
    assert (seen, code) == (expected, max(codes.values()))
