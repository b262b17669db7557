"""Databases: addresses without passwords in messages, retries while a server is away, heartbeats."""

import multiprocessing
import threading
import time
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from rlher.core.console import redact
from rlher.core.errors import UserError
from rlher.tuning import study as study_module
from rlher.tuning import study_storage
from rlher.tuning.launchers import LocalWorker
from rlher.tuning.study import SURPLUS, WORKER, counted_trials
from rlher.tuning.study_storage import open_storage
from rlher.tuning.supervisor import supervise
from rlher.tuning.worker import WorkerSpec, run_worker
from tests.support.postgres import Postgres
from tests.support.small_search import run_optimize
from tests.support.workers import new_study, no_progress, require_complete, wait_for


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:s3cret@127.0.0.1:1/db", "postgresql://***@127.0.0.1:1/db"),
        ("postgresql://127.0.0.1:1/db?user=me&password=s3cret&x=1", "postgresql://127.0.0.1:1/db?***"),
        ("oracle://me:s3cret@127.0.0.1:1/db", "oracle://***@127.0.0.1:1/db"),
        ("sqlite:////nowhere/study.db", "sqlite:////nowhere/study.db"),
    ],
)
def test_database_that_cannot_be_opened_is_named_without_its_password(tmp_path: Path, url: str, shown: str) -> None:
    with pytest.raises(UserError) as caught:
        open_storage(url, tmp_path, 60, print)
    assert f" {shown}: " in str(caught.value)
    assert "s3cret" not in str(caught.value)
    if url.startswith("oracle"):
        assert "rlher[oracle]" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "s3cret",
        "postgresql://me:s3cret@host:port/db",
        "postgresql://me:x@s3cret@127.0.0.1:1/db",
        "postgresql://me:x@s3cret/y@127.0.0.1:1/db",
        "postgresql://me:x@s3cret?y@127.0.0.1:1/db",
    ],
)
def test_address_that_cannot_be_parsed_is_not_printed(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError) as caught:
        open_storage(text, tmp_path, 60, print)
    assert "s3cret" not in str(caught.value)
    assert redact(str(caught.value)) == str(caught.value), "the example is no password"


def test_calls_are_repeated_until_the_connection_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, _ = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db")
    failures = [sqlalchemy.exc.OperationalError("select", {}, Exception("server closed")) for _ in range(2)]

    def fail(connection, cursor, statement, *_) -> None:
        if "FROM trials" in statement and failures:
            raise failures.pop()

    sqlalchemy.event.listen(study._storage._backend.engine, "before_cursor_execute", fail)
    assert len(counted_trials(study)) == 1
    assert not failures


def test_calls_are_not_repeated_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_storage, "RETRY_SECONDS", 0.3)
    study, _ = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db")

    def fail(connection, cursor, statement, *_) -> None:
        raise sqlalchemy.exc.OperationalError("select", {}, Exception("server closed"))

    sqlalchemy.event.listen(study._storage._backend.engine, "before_cursor_execute", fail)
    with pytest.raises(UserError):
        study.get_trials()


def test_database_that_cannot_be_written_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new_study(tmp_path, f"sqlite:///{tmp_path}/study.db")
    with pytest.raises(UserError) as caught:
        new_study(tmp_path, f"sqlite:///file:{tmp_path}/study.db?mode=ro&uri=true", heartbeat=30)
    assert "readonly" in str(caught.value)
    assert "trying again" not in capsys.readouterr().err


def test_worker_waits_for_a_database_that_went_away_before_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, spec = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db")
    create, failures = RDBStorage.__init__, [study_storage.StorageInternalError("commit") for _ in range(3)]

    def fail_three_times(*args: object, **options: object) -> None:
        if failures:
            raise failures.pop() from sqlalchemy.exc.OperationalError("commit", {}, Exception("server closed"))
        create(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(RDBStorage, "__init__", fail_three_times)
    with pytest.raises(UserError):  # a command that starts ends at once
        open_storage(spec.config.storage, tmp_path, 60, print)
    run_worker(spec)
    require_complete(study)
    assert capsys.readouterr().err.count("server closed") == 1


def test_trial_whose_creation_got_no_reply_is_requeued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_module, "UNNAMED_SECONDS", 1)
    study, spec = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db")
    create, created = RDBStorage._create_new_trial, []

    def lose_first_reply(*args: object) -> FrozenTrial:
        created.append(create(*args))  # type: ignore[arg-type]
        if len(created) == 1:
            raise sqlalchemy.exc.OperationalError("commit", {}, Exception("server closed"))
        return created[-1]

    monkeypatch.setattr(RDBStorage, "_create_new_trial", lose_first_reply)
    run_worker(spec)
    supervise(study, spec, 1, LocalWorker, no_progress)
    require_complete(study)
    assert study.trials[created[0].number].state is TrialState.FAIL


@pytest.mark.slow
def test_postgresql_restart_loses_no_trial(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_module, "UNNAMED_SECONDS", 5)
    study, spec = new_study(tmp_path, postgres.url, seconds=0.5, together=2)
    command = threading.Thread(target=supervise, args=(study, spec, 2, LocalWorker, no_progress))
    command.start()
    wait_for(lambda: any(trial.state is TrialState.COMPLETE for trial in study.get_trials()))
    for _ in range(3):
        postgres.restart()
        time.sleep(0.3)
    command.join(120)
    assert not command.is_alive()
    require_complete(study)
    # Both workers may start a trial when one is left; the second is marked as surplus and does not count. A trial
    # without a worker is one whose creation got no reply.
    others = [trial for trial in study.trials if trial.state is not TrialState.COMPLETE]
    assert all(SURPLUS in trial.user_attrs or WORKER not in trial.user_attrs for trial in others)


@pytest.mark.slow
def test_postgresql_connection_lost_within_a_transaction(postgres: Postgres, tmp_path: Path) -> None:
    study, _ = new_study(tmp_path, postgres.url)
    lost: list[int] = []

    def disconnect(connection, cursor, statement, *_) -> None:
        if "FROM trials" in statement and not lost:
            lost.append(connection.connection.dbapi_connection.info.backend_pid)
            with psycopg.connect(postgres.url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 10000)", lost)

    sqlalchemy.event.listen(study._storage._backend.engine, "before_cursor_execute", disconnect)
    assert len(counted_trials(study)) == 1
    assert lost


@pytest.mark.slow
def test_postgresql_heartbeat_frees_the_trial_of_a_dead_machine(postgres: Postgres, tmp_path: Path) -> None:
    study, spec = new_study(tmp_path, postgres.url, heartbeat=1, blocks=1)
    remote = _start_unsupervised(spec)
    wait_for((tmp_path / "blocked").exists)
    time.sleep(0.2)
    remote.kill()
    supervise(study, spec, 1, LocalWorker, no_progress)
    require_complete(study)
    assert study.trials[1].state is TrialState.FAIL


def _start_unsupervised(spec: WorkerSpec) -> multiprocessing.process.BaseProcess:
    """Start a worker that no supervisor watches, like one on another machine."""
    process = multiprocessing.get_context("spawn").Process(target=run_worker, args=(spec,))
    process.start()
    return process


@pytest.mark.slow
def test_postgresql_password_is_stored_nowhere(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.url.replace("://rlher@", "://rlher:s3cret@")
    done = run_optimize(tmp_path, "--n-trials", "1", "--storage", url)
    assert done.code == 0, done.err
    assert "s3cret" not in done.out + done.err
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    commands = [path.read_text() for path in tmp_path.rglob("command.txt")]
    assert commands
    assert all("***@" in words for words in commands)
