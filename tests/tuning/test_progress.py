"""Progress of a study: lines without a terminal, a live table on one."""

import sys
from pathlib import Path

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.study import Study

from rlher.config.tuning import OptimizeConfig
from rlher.jobs.progress_table import ProgressTable
from rlher.tuning.scoring import SCORE_KEYS
from rlher.tuning.search import Search
from rlher.tuning.search_space import SearchSpace
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trial_source import TrialSource
from tests.support.terminal import Terminal

SPACE: SearchSpace = {"algo.gamma": FloatDistribution(0.9, 0.95)}


def completed_study() -> Study:
    study = optuna.create_study(direction="maximize")
    trial = study.ask(SPACE)
    for name in SCORE_KEYS:
        trial.set_user_attr(name, 1.0)
    study.tell(trial, 1.0)
    return study


def progress_of(study: Study, total: int) -> ProgressTable:
    runner = TrialRunner(Search(OptimizeConfig(), SPACE, Path(), ""), study.study_name)
    return ProgressTable(TrialSource(study, runner, total, "search"), enabled=True)


@pytest.mark.parametrize("n_stored", [0, 1, len(SCORE_KEYS)])
def test_table_shows_a_trial_whose_score_is_partly_stored(monkeypatch: pytest.MonkeyPatch, n_stored: int) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    study = completed_study()
    running = study.ask()
    for name in SCORE_KEYS[:n_stored]:
        running.set_user_attr(name, 0.25)
    with progress_of(study, total=2) as progress:
        progress.update()
    assert ("25.0%" in terminal.getvalue()) == (n_stored == len(SCORE_KEYS))


def test_time_left_of_a_search(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(direction="maximize")
    progress = progress_of(study, 11)
    monkeypatch.setattr("time.monotonic", lambda: progress._start_time + 4)
    study.add_trials(completed_study().trials)
    progress.update()
    assert "~40 s left" in capsys.readouterr().err, "10 trials of 4 s"
