"""Databases: creation, damage, a server that restarts, heartbeats."""

import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.exceptions import StorageInternalError
from optuna.trial import TrialState

from rlher.core.errors import UserError
from rlher.tuning import study_storage
from rlher.tuning.study_storage import open_storage, open_study
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trials import counted_trials
from tests.support.postgres import Postgres
from tests.support.workers import new_study, require_complete, run_trials, wait_for


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("nonsense\n" * 100)
    with pytest.raises(UserError) as caught:
        open_storage(None, tmp_path, 30)
    assert "study.db" in str(caught.value)


def test_one_of_two_commands_creates_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = optuna.create_study
    both = threading.Barrier(2)

    def create_and_wait(**options: Any) -> optuna.Study:
        try:
            return create(**options)
        finally:
            both.wait(60)

    monkeypatch.setattr(optuna, "create_study", create_and_wait)
    storages = [open_storage(None, tmp_path, 30) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        opened = list(threads.map(lambda storage: open_study(storage, "mine", {"n": 1}, {"x": 3.0}), storages))
    assert sorted(created for _, created in opened) == [False, True]
    assert [len(study.trials) for study, _ in opened] == [1, 1]


def test_commands_may_create_the_database_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, multiprocessing.get_context("forkserver")) as pool:
        opened = [pool.submit(_open, tmp_path) for _ in range(4)]
    assert [each.result() for each in opened] == [None] * 4


def _open(folder: Path) -> None:
    open_storage(None, folder, 30)


def test_study_whose_command_died_while_it_created_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_storage, "CREATE_TIMEOUT", 0)
    storage = open_storage(None, tmp_path, 30)
    optuna.create_study(storage=storage, study_name="mine").enqueue_trial({"x": 3.0})
    study, created = open_study(storage, "mine", {"n": 1}, {"x": 3.0})
    assert created
    assert len(study.trials) == 1
    later = {"n": 1, "added": 2}
    assert not open_study(storage, "mine", later, defaults={"added": 2})[1]
    with pytest.raises(UserError):
        open_study(storage, "mine", later, defaults={"added": 3})


@pytest.mark.slow
def test_a_search_goes_on_after_postgresql_restarted(postgres: Postgres, tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, postgres.url)
    run_trials(study, runner, 1, total=2)
    postgres.restart()
    run_trials(study, runner, 1)
    require_complete(study)


@pytest.mark.slow
def test_the_same_command_goes_on_after_postgresql_was_away(postgres: Postgres, tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, postgres.url, heartbeat=1, seconds=0.5)
    failures: list[BaseException] = []

    def command() -> None:
        try:
            run_trials(study, runner, 2)
        except Exception as error:
            failures.append(error)

    first = threading.Thread(target=command)
    first.start()
    wait_for(lambda: any(trial.state is TrialState.COMPLETE for trial in counted_trials(study)))
    postgres.restart()
    first.join(120)
    assert [type(error) for error in failures] in ([], [StorageInternalError])
    run_trials(study, runner, 2)
    require_complete(study)


@pytest.mark.slow
def test_postgresql_heartbeat_frees_the_trial_of_a_dead_machine(postgres: Postgres, tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, postgres.url, heartbeat=1, blocks=1)
    remote = multiprocessing.get_context("spawn").Process(target=_join, args=(runner,))
    remote.start()
    wait_for((tmp_path / "blocked").exists)
    time.sleep(0.2)
    remote.kill()
    run_trials(study, runner, 1)
    require_complete(study)
    assert study.trials[1].state is TrialState.FAIL


@pytest.mark.slow
def test_the_trial_of_a_command_that_died_before_its_first_heartbeat_is_retried(tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, heartbeat=1)
    study.ask()
    run_trials(study, runner, 1)
    require_complete(study)
    assert study.trials[0].state is TrialState.FAIL


def _join(runner: TrialRunner) -> None:
    """Run trials of a study, as a command on another machine does."""
    storage = open_storage(runner.search.config.storage, runner.search.folder, runner.search.config.heartbeat)
    run_trials(optuna.load_study(storage=storage, study_name=runner.study_name), runner, 1)
