"""Commands as Hydra applications: printed configs, exit codes of sweeps, errors in a job."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from rlher import COMMAND
from rlher.cli import hydra_app
from rlher.cli.commands import load_command


def run_jobs(monkeypatch: pytest.MonkeyPatch, job, *argv: str) -> int:
    command = load_command("list")
    monkeypatch.setattr(command.module, "run", job)
    return hydra_app.run(command, list(argv), ["list", *argv])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], [None]),
        (["-m", "what=algos,envs"], ["algos", "envs"]),
        (["hydra.mode=MULTIRUN", "what=algos,envs"], ["algos", "envs"]),
    ],
)
def test_flag_or_override_selects_a_sweep(
    monkeypatch: pytest.MonkeyPatch, words: list[str], expected: list[str | None]
) -> None:
    seen = []
    run_jobs(monkeypatch, lambda config: seen.append(config.what) or 0, *words)
    assert seen == expected


def test_a_job_of_a_sweep_has_a_command_of_its_own(rlher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("total_timesteps: 100\n")
    jobs: list = []
    monkeypatch.setattr(load_command("train").module, "sweep", lambda found: jobs.extend(found) or 0)
    words = ("--workers", "2", "algo=dqn", "env=BitFlipping-v0", "her=future,final", "recipe=mine.yaml,null")
    assert rlher("train", "-m", *words).code == 0
    assert [job.name for job in jobs][:2] == ["her=future recipe=mine_yaml", "her=future recipe=none"]
    common = "rlher train algo=dqn env=BitFlipping-v0"
    assert [job.command for job in jobs] == [
        f"{common} her={her} recipe={recipe}" for her in ("future", "final") for recipe in ("mine.yaml", "null")
    ]


def test_a_config_file_selects_a_sweep(rlher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine/preset").mkdir(parents=True)
    sweep = {"hydra": {"mode": "MULTIRUN", "sweeper": {"params": {"seed": "0,1"}}}}
    (tmp_path / "mine/preset/two_seeds.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(sweep)}")
    seeds: list[int] = []
    monkeypatch.setattr(load_command("train").module, "sweep", lambda jobs: seeds.extend(j.config.seed for j in jobs))
    rlher("train", "--config-dir", str(tmp_path / "mine"), "algo=dqn", "env=BitFlipping-v0", "preset=two_seeds")
    assert seeds == [0, 1]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ({"algos": 0, "envs": 2, "strategies": 1}, ["algos", "envs", "strategies"]),
        ({"algos": 130, "envs": 0}, ["algos"]),
    ],
)
def test_sweep_returns_the_largest_exit_code_and_ends_at_an_interrupt(monkeypatch, codes: dict, expected: list) -> None:
    seen = []
    words = ("-m", f"what={','.join(codes)}")
    code = run_jobs(monkeypatch, lambda config: seen.append(config.what) or codes[config.what], *words)
    assert (seen, code) == (expected, max(codes.values()))


def test_job_sees_the_typed_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []
    program = list(sys.argv)
    monkeypatch.delenv(COMMAND, raising=False)
    run_jobs(monkeypatch, lambda config: commands.append(os.environ[COMMAND]) or 0, "json=true")
    assert commands == ["rlher list json=true"]
    assert sys.argv == program
    assert COMMAND not in os.environ
