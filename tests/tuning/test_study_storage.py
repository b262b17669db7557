"""Databases: retries while a server is away, heartbeats."""

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from rlher.core.errors import UserError
from rlher.tuning import study_storage
from rlher.tuning.study_storage import open_storage, open_study
from rlher.tuning.trial_jobs import HEARTBEAT, TrialJobs
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trials import counted_trials
from tests.support.postgres import Postgres
from tests.support.workers import new_study, require_complete, run_trials, wait_for


def test_incomplete_record_is_dropped(tmp_path: Path) -> None:
    """As after a full disk; Optuna would append to the record and lose both."""

    def study() -> optuna.Study:
        storage = open_storage(None, tmp_path)
        return optuna.create_study(storage=storage, study_name="mine", load_if_exists=True)

    study().optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    with (tmp_path / "journal.log").open("a") as file:
        file.write('{"op_code":6,"worker')
    running = study()
    running.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    assert len(study().trials) == len(running.trials) == 3


@pytest.mark.parametrize("text", ["nonsense\nnonsense\n", '{"op_code": 99}\n'])
def test_damaged_journal_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal.log").write_text(text)
    with pytest.raises(UserError) as caught:
        open_storage(None, tmp_path)
    assert "journal.log" in str(caught.value)


def test_a_lock_that_is_a_dangling_link_does_not_block(tmp_path: Path) -> None:
    """Optuna takes it for the lock of a running process, and never stops waiting."""
    (tmp_path / "journal.log.lock").symlink_to("missing")
    open_storage(None, tmp_path)


@pytest.mark.parametrize("address", [None, "sqlite:///{}/study.db"])
def test_one_of_two_commands_creates_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    create = optuna.create_study
    both = threading.Barrier(2)

    def create_and_wait(**options: Any) -> optuna.Study:
        try:
            return create(**options)
        finally:
            both.wait(60)

    monkeypatch.setattr(optuna, "create_study", create_and_wait)
    storages = [open_storage(address and address.format(tmp_path), tmp_path) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        opened = list(threads.map(lambda storage: open_study(storage, "mine", {"n": 1}, {"x": 3.0}), storages))
    assert sorted(created for _, created in opened) == [False, True]
    assert [len(study.trials) for study, _ in opened] == [1, 1]


def test_study_whose_command_died_while_it_created_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_storage, "CREATE_TIMEOUT", 0)
    storage = open_storage(None, tmp_path)
    optuna.create_study(storage=storage, study_name="mine").enqueue_trial({"x": 3.0})
    study, created = open_study(storage, "mine", {"n": 1}, {"x": 3.0})
    assert created
    assert len(study.trials) == 1
    later = {"n": 1, "added": 2}
    assert not open_study(storage, "mine", later, defaults={"added": 2})[1]
    with pytest.raises(UserError):
        open_study(storage, "mine", later, defaults={"added": 3})


def server_closed(*_: object) -> None:
    raise StorageInternalError from sqlalchemy.exc.OperationalError("select", {}, Exception("server closed"))


def test_calls_are_repeated_until_the_connection_is_back(tmp_path: Path) -> None:
    study, _ = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db")
    failures = [sqlalchemy.exc.OperationalError("select", {}, Exception("server closed")) for _ in range(2)]

    def fail(connection, cursor, statement, *_) -> None:
        if "FROM trials" in statement and failures:
            raise failures.pop()

    sqlalchemy.event.listen(study._storage._backend.engine, "before_cursor_execute", fail)
    assert len(counted_trials(study)) == 1
    assert not failures


def test_a_connection_lost_at_the_first_heartbeat_starts_no_second_trial(tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db")
    failures = [sqlalchemy.exc.OperationalError("insert", {}, Exception("server closed"))]

    def fail(connection, cursor, statement, parameters, *_) -> None:
        if HEARTBEAT in parameters and failures:
            raise failures.pop()

    sqlalchemy.event.listen(study._storage._backend.engine, "before_cursor_execute", fail)
    (job,) = TrialJobs(study, runner, 1, "quadratic").next_jobs(1)
    assert not failures
    assert [trial.number for trial in study.trials] == [job.owner.number]


def test_database_that_cannot_be_written_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, runner = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db")
    storage = RDBStorage(f"sqlite:///file:{tmp_path}/study.db?mode=ro&uri=true")
    study = optuna.load_study(storage=storage, study_name="quadratic")
    with pytest.raises(StorageInternalError):
        run_trials(study, runner, 1)
    assert "trying again" not in capsys.readouterr().err


def test_worker_waits_for_a_database_that_went_away_before_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, runner = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db")
    trial = study.ask(runner.space)
    create, failures = RDBStorage.__init__, [None] * 3

    def fail_three_times(*args: object, **options: object) -> None:
        if failures:
            failures.pop()
            server_closed()
        create(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(RDBStorage, "__init__", fail_three_times)
    with pytest.raises(UserError):  # a command that starts ends at once
        open_storage(runner.config.storage, tmp_path)
    runner.run_and_record(trial._trial_id)
    assert study.trials[0].state is TrialState.COMPLETE
    assert capsys.readouterr().err.count("server closed") == 1


@pytest.mark.slow
def test_postgresql_restart_loses_no_trial(postgres: Postgres, tmp_path: Path) -> None:
    study, runner = new_study(tmp_path, postgres.url, heartbeat=5, seconds=0.5, together=2)
    command = threading.Thread(target=run_trials, args=(study, runner, 2))
    command.start()
    wait_for(lambda: any(trial.state is TrialState.COMPLETE for trial in counted_trials(study)))
    for _ in range(3):
        postgres.restart()
        time.sleep(0.3)
    command.join(120)
    assert not command.is_alive()
    require_complete(study)
    # A trial without a heartbeat is one whose creation got no reply.
    others = [trial for trial in study.trials if trial.state is not TrialState.COMPLETE]
    assert all(HEARTBEAT not in trial.user_attrs for trial in others)


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


def _join(runner: TrialRunner) -> None:
    """Run trials of a study, as a command on another machine does."""
    storage = open_storage(runner.config.storage, runner.folder)
    run_trials(optuna.load_study(storage=storage, study_name=runner.study_name), runner, 1)
