"""Studies of `rlher optimize` in the report."""

import shutil
from pathlib import Path

import pytest

from tests.analysis.conftest import STUDY
from tests.conftest import Make
from tests.support.report_page import legends, read, section


def test_a_study(rlher) -> None:
    done = rlher("report", str(STUDY), "--output", "report.html")
    assert (done.code, done.err) == (0, "")
    page = read()
    tuning = section(page, "tuning")
    assert "<h1>bits15-poor-start</h1>" in page
    assert "20 done, 20 pruned trials" in tuning
    row = ["trial 8", "98.6%", "100 / 96 / 100 / 99 / 98", "0.532", "2,960", "+0.826 [+0.770, +0.882]"]
    assert "".join(f"<td>{cell}</td>" for cell in row) in tuning
    assert "her.goal_selection_strategy=mix" in tuning
    assert "All 40 trials" in tuning
    assert tuning.count('src="data:image/png;base64,') == 1
    assert 'id="curves"' not in page


def test_a_study_with_runs_and_its_reruns(rlher, two_agents: list[str], make_run: Make) -> None:
    shutil.copytree(STUDY, "logs/optuna/study")
    make_run("optuna/study/trials/0/sac/Some-v0_1", 7, algo={"gamma": 0.5})
    make_run("optuna/study/reruns/0/sac/Some-v0_1", 1000, algo={"gamma": 0.9})
    rlher("report", *two_agents, "logs/optuna/study")
    assert legends(read()) == [["good (3 seeds)", "bad (3 seeds)", "study: sac, future (1 seed)"]]
    assert "gamma" in section(read(), "configuration").split("<details>")[0]


def test_studies_of_one_environment_are_different_agents(rlher, make_run: Make) -> None:
    for study, rise in (("poor", 0.05), ("good", 0.1)):
        make_run(f"optuna/{study}/reruns/0/sac/Some-v0_1", 1000, rise, algo={"gamma": rise})
        Path(f"logs/optuna/{study}/study.db").touch()
    studies = ["logs/optuna/poor", "logs/optuna/good", "logs/optuna/good/"]
    for by in ([], ["--by", "algo"]):
        rlher("report", *studies, *by)
        assert [label.partition(":")[0] for label in legends(read())[0]] == ["poor", "good"]
        assert "Some-v0, Some-v0" not in read(), "one environment is not several"


@pytest.mark.parametrize(
    ("file", "content", "shown"),
    [
        ("verdict.json", '{"candidates": 3}', "study/verdict.json"),
        ("verdict.json", "[1", "<h3>study</h3>"),
        ("trials.csv", 'a,b\n1,2,3\n"', "study/trials.csv"),
    ],
)
def test_a_damaged_file_is_named_and_the_rest_shown(rlher, file: str, content: str, shown: str) -> None:
    shutil.copytree(STUDY, "study")
    Path("study", file).write_text(content)
    assert rlher("report", "study", "--output", "a.html").code == 0
    assert shown in read("a.html")
    assert "exploration_fraction: 0.3" in read("a.html")
