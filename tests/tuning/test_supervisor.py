"""Workers in processes of this machine: the total, killed workers, failing trials."""

import os
import signal
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.study import StudyDirection
from optuna.trial import TrialState

from rlher.tuning.launchers import LocalWorker
from rlher.tuning.study import SURPLUS, counted_trials, open_study, requeue
from rlher.tuning.study_storage import open_storage
from rlher.tuning.supervisor import supervise
from rlher.tuning.worker import REASON, load_study, run_worker
from tests.support.workers import TOTAL, new_study, no_progress, require_complete, wait_for


def test_two_workers_run_the_total(tmp_path: Path) -> None:
    study, spec = new_study(tmp_path, together=2)
    supervise(study, spec, 2, LocalWorker, no_progress)
    require_complete(study)
    assert len({trial.user_attrs["worker"] for trial in study.trials}) == 2
    supervise(study, spec, 2, LocalWorker, no_progress)
    assert len(study.trials) == TOTAL, "a second call adds no trial"


def test_two_commands_share_the_total(tmp_path: Path) -> None:
    study, spec = new_study(tmp_path, together=2)
    storage = open_storage(None, tmp_path, 60, requeue)
    joined, created = open_study(storage, "quadratic", [StudyDirection.MAXIMIZE], {"n": 1})
    assert not created
    arguments = (joined, replace(spec, entropy=(1,)), 1, LocalWorker, no_progress)
    other = threading.Thread(target=supervise, args=arguments)
    other.start()
    supervise(study, spec, 1, LocalWorker, no_progress)
    other.join()
    require_complete(study)


def test_workers_propose_different_trials(tmp_path: Path) -> None:
    study, spec = new_study(tmp_path)
    study.ask()
    drawn = [load_study(replace(spec, entropy=(0, index))).ask().suggest_float("x", -10, 10) for index in (0, 1, 2)]
    assert len(set(drawn)) == 3


def test_trial_of_a_killed_worker_runs_again(tmp_path: Path) -> None:
    study, spec = new_study(tmp_path, blocks=2)
    command = threading.Thread(target=supervise, args=(study, spec, 2, LocalWorker, no_progress))
    command.start()
    wait_for((tmp_path / "blocked").exists, 120)
    time.sleep(0.2)
    os.kill(int((tmp_path / "blocked").read_text()), signal.SIGKILL)
    command.join(60)
    require_complete(study)
    lost = [trial for trial in study.trials if trial.state is TrialState.FAIL and SURPLUS not in trial.user_attrs]
    assert [trial.number for trial in lost] == [2], "no other trial was lost"
    assert sum(trial.params == lost[0].params for trial in counted_trials(study)) == 1, "its retry"


@pytest.mark.slow
def test_worker_that_dies_before_its_first_heartbeat_loses_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna's heartbeat thread may not have run yet when a worker dies."""
    monkeypatch.setattr(optuna.study._optimize, "get_heartbeat_thread", lambda *_: nullcontext())
    study, spec = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db", heartbeat=2)

    def die(_: optuna.Trial) -> float:
        raise SystemExit  # as close to a kill as possible within this process: Optuna does not catch it

    with pytest.raises(SystemExit):
        run_worker(replace(spec, objective=die))
    assert study.trials[0].state is TrialState.RUNNING
    arguments = (study, spec, 1, LocalWorker, no_progress)
    command = threading.Thread(target=supervise, args=arguments, daemon=True)
    command.start()
    command.join(60)
    require_complete(study)
    assert study.trials[0].state is TrialState.FAIL


def test_exception_fails_its_trial_and_is_recorded(tmp_path: Path) -> None:
    study, spec = new_study(tmp_path, fails=1)
    supervise(study, replace(spec, total=3), 1, LocalWorker, no_progress)
    failed = study.trials[1]
    assert failed.state is TrialState.FAIL
    assert failed.user_attrs[REASON].startswith("ZeroDivisionError: ")
    assert [trial.state for trial in study.trials].count(TrialState.COMPLETE) == 2
    assert "Traceback" in "".join(log.read_text() for log in (tmp_path / "workers").iterdir())
