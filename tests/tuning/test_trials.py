"""Trials in worker processes of this machine: the total, killed workers, dead commands, failing trials."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from optuna.trial import TrialState

from rlher.tuning.study_storage import open_storage, open_study
from rlher.tuning.trial_source import TrialSource, count_unstarted, fail_and_retry
from rlher.tuning.trials import FAILURE_REASON, counted_trials
from tests.support.workers import TOTAL, new_study, require_complete, run_trials, wait_for


def test_two_workers_run_the_total(tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, together=2)
    run_trials(study, runner, 2)
    require_complete(study)
    assert len(list(tmp_path.glob("*.pid"))) == TOTAL, "each trial has a process of its own"
    run_trials(study, runner, 2)
    assert len(study.trials) == TOTAL, "a second call adds no trial"


@pytest.mark.slow
def test_two_commands_share_the_total(tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, together=2)
    joined, created = open_study(open_storage(None, tmp_path, 60), "quadratic", {"n": 1})
    assert not created
    other = threading.Thread(target=run_trials, args=(joined, runner, 1))
    other.start()
    run_trials(study, runner, 1)
    other.join()
    # Both commands may start the last trial at the same time.
    assert TOTAL <= len(counted_trials(study)) <= TOTAL + 1
    assert all(trial.state is TrialState.COMPLETE for trial in study.trials)


@pytest.mark.slow
def test_trial_of_a_killed_worker_runs_again(tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, blocks=2)
    command = threading.Thread(target=run_trials, args=(study, runner, 2))
    command.start()
    wait_for((tmp_path / "blocked").exists, 120)
    time.sleep(0.2)
    os.kill(int((tmp_path / "blocked").read_text()), signal.SIGKILL)
    command.join(60)
    require_complete(study)
    lost = [trial for trial in study.trials if trial.state is TrialState.FAIL]
    assert [trial.number for trial in lost] == [2], "no other trial was lost"
    assert sum(trial.params == lost[0].params for trial in counted_trials(study)) == 1, "its retry"


def test_trials_of_a_dead_command_run_again(tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, heartbeat=1)
    of_living_command, of_dead_command = (study.ask(runner.search.space) for _ in range(2))
    for trial in (of_living_command, of_dead_command):
        study._storage.record_heartbeat(trial._trial_id)
    jobs = TrialSource(study, runner, TOTAL, "quadratic")
    for _ in range(7):
        assert not list(jobs.next_jobs(0))
        time.sleep(0.5)
        study._storage.record_heartbeat(of_living_command._trial_id)
    assert [trial.state for trial in study.trials] == [TrialState.RUNNING, TrialState.FAIL, TrialState.WAITING]
    assert study.trials[2].params == study.trials[1].params
    assert count_unstarted(study, TOTAL) == TOTAL - 1


def test_trial_that_kills_every_worker_fails_for_good(tmp_path: Path) -> None:
    study, _ = new_study(tmp_path)
    for _ in range(3):
        last = study.ask()
        fail_and_retry(study, last)
    assert [trial.number for trial in counted_trials(study)] == [last.number]
    assert count_unstarted(study, 1) == 0


def test_exception_fails_its_trial_and_is_recorded(tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, fails=1)
    run_trials(study, runner, 1, total=3)
    failed = study.trials[1]
    assert failed.state is TrialState.FAIL
    assert failed.user_attrs[FAILURE_REASON].startswith("ZeroDivisionError: ")
    assert [trial.state for trial in study.trials].count(TrialState.COMPLETE) == 2
    assert "Traceback" in (tmp_path / "workers/quadratic-1.log").read_text()
