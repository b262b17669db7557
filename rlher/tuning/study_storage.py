"""Storage of studies: an Optuna journal file on this machine, or a database that several machines share.

A command ends with an error if it cannot reach its database at the start. Later, commands and their workers wait: they
repeat each call of a storage until the server is back.
"""

import os
import sqlite3
import time
import warnings
from pathlib import Path

import optuna
import tenacity
from optuna.exceptions import DuplicatedStudyError, ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, get_storage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.study import Study
from sqlalchemy.engine import make_url
from sqlalchemy.exc import InterfaceError, OperationalError, PendingRollbackError

from rlher.config.key import Values, changed_values
from rlher.config.tuning import hide_password
from rlher.core.console import format_seconds, warn
from rlher.core.errors import UserError, describe_error, first_line, pip_install
from rlher.core.reading import require_safe_to_write
from rlher.tuning.study_folder import JOURNAL_FILE

# The callback that retries a trial has been marked experimental since 2021; every command would print a warning.
warnings.filterwarnings("ignore", category=ExperimentalWarning)

RETRY_TIMEOUT = 600.0
"""How long a running study waits while it cannot reach its database."""
CREATE_TIMEOUT = 10  # how long a command waits while another command creates the study
IDENTITY_ATTRIBUTE = "rlher"
BASELINE_ATTRIBUTE = "baseline"
"""User attributes of a study, and of its trial 0."""


def open_storage(storage: str | None, folder: Path) -> BaseStorage:
    """Open the journal in ``folder``, or the database of a URL. Calls of a database wait while it cannot be reached.

    :param storage: as :class:`rlher.config.tuning.OptimizeConfig` validates it.
    :raises UserError: the journal is damaged, the driver is missing or the server cannot be reached.
    """
    if storage is None:
        folder.mkdir(parents=True, exist_ok=True)
        return _open_journal(folder / JOURNAL_FILE)
    url = make_url(storage)
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")  # the driver that the extra installs
    # SQLite waits this long for writes of other processes, and PostgreSQL for the server.
    limits = {"sqlite": {"timeout": 60}, "postgresql": {"connect_timeout": 10}}
    options = {"pool_pre_ping": True, "connect_args": limits.get(url.get_backend_name(), {})}
    try:
        database = get_storage(RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options))
    except ImportError as error:
        reason = f"its driver is missing ({error}); install it, for PostgreSQL by {pip_install('postgresql')}"
        raise UserError(f"cannot use the storage {hide_password(storage)}: {reason}.") from error
    except Exception as error:  # Optuna, SQLAlchemy and drivers raise many kinds
        raise storage_error(storage, error) from error
    for name in dir(BaseStorage):
        if not name.startswith("_"):
            setattr(database, name, retry_while_database_is_away(getattr(database, name)))
    return database


def storage_error(storage: str | None, error: BaseException) -> UserError:
    """Return the message about an error of a storage, without passwords."""
    shown = hide_password(storage) if storage else "of the journal"
    reason = _reason(error)
    if storage and (password := make_url(storage).password):
        reason = reason.replace(password, "***")
    return UserError(f"cannot use the storage {shown}: {reason}.")


def _open_journal(path: Path) -> JournalStorage:
    """Open or create a journal. An incomplete last record, for example after a full disk, is removed.

    :raises UserError: Optuna cannot replay the records of the journal.
    """
    lock_file = path.with_name(f"{path.name}.lock")
    require_safe_to_write(path)
    if lock_file.is_symlink() and not lock_file.exists():  # Optuna would wait for it for ever
        lock_file.unlink()
    try:
        lock = JournalFileSymlinkLock(str(path))
        backend = JournalFileBackend(str(path), lock)
        lock.acquire()
        try:
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        finally:
            lock.release()
        return JournalStorage(backend)
    except OSError:
        raise
    except Exception as error:  # Optuna raises all kinds of errors on records that it did not write
        problem = f"it is damaged ({describe_error(error)}); move it away to start a new study"
        raise UserError(f"cannot use the storage {path}: {problem}.") from error


# -------------------------------------------------------------------------- a database that goes away


def _may_succeed_later(error: BaseException | None) -> bool:
    """Return whether a repeated call may succeed: the server was away, or another process had locked the file."""
    if isinstance(error, (StorageInternalError, UserError)):
        return _may_succeed_later(error.__cause__)
    if isinstance(error, OperationalError) and isinstance(error.orig, sqlite3.Error):
        return "locked" in str(error.orig)  # another process locked the file; SQLite has no server
    # PendingRollbackError is raised when Optuna continues a transaction of a lost connection.
    return isinstance(error, OperationalError | InterfaceError | PendingRollbackError)


def _warn_once(state: tenacity.RetryCallState) -> None:
    """Warn that a call waits for the database, unless the first retry, with a new connection, succeeded."""
    error = state.outcome.exception() if state.outcome else None
    if error is not None and state.attempt_number == 2:
        warn(f"the database is away ({_reason(error)}); trying again for {format_seconds(RETRY_TIMEOUT)}.")


def _reason(error: BaseException) -> str:
    """Return the first line of the message from the database or its driver."""
    while isinstance(error, (StorageInternalError, UserError)) and error.__cause__ is not None:
        error = error.__cause__
    return first_line(getattr(error, "orig", None) or error)


retry_while_database_is_away = tenacity.retry(
    retry=tenacity.retry_if_exception(_may_succeed_later),
    wait=tenacity.wait_exponential(multiplier=0.2, max=5),
    stop=tenacity.stop_after_delay(RETRY_TIMEOUT),
    before_sleep=_warn_once,
    reraise=True,
)
"""Decorator for functions that use a database. It repeats a call while the connection is lost."""


# ------------------------------------------------------------------------------------------ studies


def open_study(
    storage: BaseStorage, name: str, identity: Values, baseline: Values | None = None, defaults: Values | None = None
) -> tuple[Study, bool]:
    """Create or join a study.

    :param identity: settings that must be equal for two commands to share a study. The study stores them as JSON.
    :param baseline: parameters of a trial to queue when the study is created.
    :param defaults: defaults of the config keys among the settings.
    :return: the study, and whether this call created it.
    :raises UserError: a study of this name has another identity.
    """
    try:
        study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    except DuplicatedStudyError:
        study = optuna.load_study(storage=storage, study_name=name)
        # Another command may still be creating the study. It queues the baseline, then stores the identity.
        deadline = time.monotonic() + CREATE_TIMEOUT
        while IDENTITY_ATTRIBUTE not in study.user_attrs and time.monotonic() < deadline:
            time.sleep(0.1)
    stored = study.user_attrs.get(IDENTITY_ATTRIBUTE)
    if stored is None:  # the study is new, or the command that created it died at once
        if baseline is not None:  # before the identity: a command that joins finds the baseline queued
            study.enqueue_trial(dict(baseline), user_attrs={BASELINE_ATTRIBUTE: True}, skip_if_exists=True)
        study.set_user_attr(IDENTITY_ATTRIBUTE, identity)
        return study, True
    if not isinstance(stored, dict):
        raise UserError(f"the study {name!r} was not created by rlher optimize; choose another --study-name.")
    if changes := changed_values(stored, identity, defaults or {}):
        key, (before, value) = next(iter(changes.items()))
        raise UserError(f"the study {name!r} has {key}={before}, this command {value}; choose another --study-name.")
    return study, False
