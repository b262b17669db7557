"""Commands as Hydra applications: printed configs, exit codes of sweeps, errors in a job."""

import os
import sys
from pathlib import Path

import pytest
import yaml
from hydra._internal.hydra import Hydra
from hydra.core.hydra_config import HydraConfig

from rlher import COMMAND
from rlher.cli.commands import load_command
from rlher.cli.hydra_app import HydraApp, Interrupted
from rlher.core.errors import EnvironmentFault, UserError


def run_jobs(monkeypatch: pytest.MonkeyPatch, job, *argv: str) -> tuple[HydraApp, int]:
    command = load_command("list")
    monkeypatch.setattr(command.module, "run", job)
    app = HydraApp(command)
    return app, app.run(list(argv), ["list", *argv])


def test_cfg_prints_the_resolved_config(rlher) -> None:
    config = yaml.safe_load(rlher("train", "algo=sac", "env=FetchReach-v4", "algo.gamma=0.9", "--cfg", "job").out)
    assert config["algo"]["name"] == "sac"
    assert config["algo"]["gamma"] == 0.9
    assert config["env"]["id"] == "FetchReach-v4"


@pytest.mark.parametrize(
    ("words", "modes"),
    [
        ([], ["RUN"]),
        (["-m", "what=algos,envs"], ["MULTIRUN"] * 2),
        (["hydra.mode=MULTIRUN", "what=algos,envs"], ["MULTIRUN"] * 2),
        (["++hydra.mode=MULTIRUN", "what=algos,envs"], ["MULTIRUN"] * 2),
    ],
)
def test_flag_or_override_selects_a_sweep(monkeypatch: pytest.MonkeyPatch, words: list[str], modes: list[str]) -> None:
    seen = []

    def job(config) -> int:
        seen.append(HydraConfig.get().mode.name)
        return 0

    run_jobs(monkeypatch, job, *words)
    assert seen == modes


@pytest.mark.parametrize("flag", ["--config-dir", "-cd"])
def test_a_config_file_selects_a_sweep(rlher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flag: str) -> None:
    (tmp_path / "mine/preset").mkdir(parents=True)
    sweep = {"hydra": {"mode": "MULTIRUN", "sweeper": {"params": {"seed": "0,1"}}}}
    (tmp_path / "mine/preset/two_seeds.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(sweep)}")
    seeds: list[int] = []
    monkeypatch.setattr(load_command("train").module, "sweep", lambda jobs: seeds.extend(j.config.seed for j in jobs))
    rlher("train", flag, str(tmp_path / "mine"), "algo=dqn", "env=BitFlipping-v0", "preset=two_seeds")
    assert seeds == [0, 1]


def test_the_config_is_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    composed, compose = [], Hydra.compose_config

    def count(*args, **kwargs):
        composed.append(args)
        return compose(*args, **kwargs)

    monkeypatch.setattr(Hydra, "compose_config", count)
    run_jobs(monkeypatch, lambda config: 0)
    assert len(composed) == 1


def test_sweep_runs_every_job_and_returns_the_largest_exit_code(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    seen = []

    def job(config) -> int:
        seen.append(config.what)
        if config.what == "algos":
            raise UserError("wrong")
        if config.what == "envs":
            raise EnvironmentFault("broken")
        return 0

    app, code = run_jobs(monkeypatch, job, "-m", "what=algos,envs,strategies")
    assert seen == ["algos", "envs", "strategies"]
    assert [result.exit_code for result in app.results] == [2, 1, 0]
    assert code == 2
    assert capsys.readouterr().err == "rlher: wrong\nrlher: broken\n"


def test_bug_is_raised_after_the_other_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def job(config) -> int:
        seen.append(config.what)
        raise ZeroDivisionError(config.what)

    with pytest.raises(ZeroDivisionError, match="algos"):
        run_jobs(monkeypatch, job, "-m", "what=algos,envs")
    assert seen == ["algos", "envs"]


def test_interrupt_ends_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def job(config) -> int:
        seen.append(config.what)
        return 130

    with pytest.raises(Interrupted):
        run_jobs(monkeypatch, job, "-m", "what=algos,envs")
    assert seen == ["algos"]


def test_job_sees_the_typed_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []
    program = list(sys.argv)
    monkeypatch.delenv(COMMAND, raising=False)
    run_jobs(monkeypatch, lambda config: commands.append(os.environ[COMMAND]) or 0, "json=true")
    assert commands == ["rlher list json=true"]
    assert sys.argv == program
    assert COMMAND not in os.environ
