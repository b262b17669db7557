"""Storage of a study: a journal file, or a database whose calls are repeated while the server is away.

A command that cannot reach the database when it starts ends with an error; from then on, it and its workers wait.

SQLAlchemy's pre-ping replaces connections that were lost between two calls. A server that is down, or a connection that
breaks within a call, still raises; such calls are repeated as a whole with tenacity.
"""

import functools
import re
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy.exc
from optuna.exceptions import ExperimentalWarning, OptunaError, StorageInternalError
from optuna.storages import BaseStorage, RDBStorage, _CachedStorage
from sqlalchemy.engine import URL, make_url
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_exponential

from rlher.core.console import format_seconds, redact, warn
from rlher.core.errors import UserError, first_line, pip_install
from rlher.tuning.journal import open_journal

# Heartbeats and the retry of stale trials have been marked experimental since 2021; every worker would print a warning.
warnings.filterwarnings("ignore", category=ExperimentalWarning)

RETRY_SECONDS = 600.0
"""How long a running study waits for a database that went away."""
CONNECT_SECONDS = 10
DRIVERS = {"postgresql": "psycopg", "mysql": "pymysql"}
CONNECTION_ERRORS = (
    sqlalchemy.exc.OperationalError,
    sqlalchemy.exc.InterfaceError,
    sqlalchemy.exc.PendingRollbackError,  # raised when Optuna continues a transaction after its connection was lost
)


def open_storage(storage: str | None, folder: Path, heartbeat: int, on_stale: Callable) -> BaseStorage:
    """Open the journal in ``folder``, or the database of a URL.

    :param heartbeat: seconds between heartbeats in a database; a journal has none.
    :param on_stale: called with study and trial if a trial had no heartbeat for twice that long.
    :raises UserError: the journal is damaged, the URL cannot be parsed, the driver is missing or the server cannot be
        reached.
    """
    if storage is None:
        folder.mkdir(parents=True, exist_ok=True)
        return open_journal(folder / "journal.log")
    url = _parse_url(storage)
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.get_backend_name() in DRIVERS:
        options["connect_args"] = {"connect_timeout": CONNECT_SECONDS}
    try:
        database = RDBStorage(
            url.render_as_string(hide_password=False),
            engine_kwargs=options,
            heartbeat_interval=heartbeat,
            heartbeat_stale_trial_callback=on_stale,
        )
    except (ImportError, sqlalchemy.exc.SQLAlchemyError, OptunaError, RuntimeError, ValueError, TypeError) as error:
        reason = _reason(error)
        if isinstance(error, ImportError):
            reason = f"the driver of {url.drivername} is missing; run {pip_install(url.get_backend_name())}"
        raise UserError(f"cannot use the storage {redact(storage)}: {reason}.") from error
    return _CachedStorage(_RetryingStorage(database, redact(storage)))  # type: ignore[arg-type]  # the cache that optuna uses as well


def open_storage_when_connected(storage: str | None, folder: Path, heartbeat: int, on_stale: Callable) -> BaseStorage:
    """Open the storage of a study that a command has opened before: wait for a database that went away since."""
    return _retrying()(open_storage, storage, folder, heartbeat, on_stale)


class _RetryingStorage:
    """Database storage whose calls are repeated while the connection is lost, for :data:`RETRY_SECONDS` at most.

    A call that fails for good raises UserError.

    :param name: of the storage, for the message.
    """

    def __init__(self, storage: RDBStorage, name: str) -> None:
        self._storage, self._name = storage, name

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._storage, name)
        return functools.partial(self._call, value) if callable(value) else value

    def _call(self, method: Callable, *args: Any, **kwargs: Any) -> Any:
        try:
            return _retrying()(method, *args, **kwargs)
        except (StorageInternalError, sqlalchemy.exc.SQLAlchemyError) as error:
            raise UserError(f"cannot use the storage {self._name}: {_reason(error)}.") from error


def _retrying() -> Retrying:
    return Retrying(
        retry=retry_if_exception(_is_connection_error),
        wait=wait_exponential(multiplier=0.2, max=5),
        stop=stop_after_delay(RETRY_SECONDS),
        before_sleep=_warn_once,
        reraise=True,
    )


def _is_connection_error(error: BaseException | None) -> bool:
    if isinstance(error, (StorageInternalError, UserError)):
        return _is_connection_error(error.__cause__)
    if isinstance(error, sqlalchemy.exc.OperationalError) and isinstance(error.orig, sqlite3.Error):
        return "locked" in str(error.orig)  # by another process; SQLite has no server that could be away
    return isinstance(error, CONNECTION_ERRORS)


def _warn_once(state: RetryCallState) -> None:
    """Say that a call waits for the database, unless a new connection was enough."""
    error = state.outcome.exception() if state.outcome else None
    if error is not None and state.attempt_number == 2:
        warn(f"the database is away ({_reason(error)}); trying again for {format_seconds(RETRY_SECONDS)}.")


def _reason(error: BaseException) -> str:
    """Return the first line of what the database or its driver said."""
    while isinstance(error, (StorageInternalError, UserError)) and error.__cause__ is not None:
        error = error.__cause__
    return first_line(getattr(error, "orig", None) or error)


def _parse_url(storage: str) -> URL:
    """Return the address with the driver of its extra.

    :raises UserError: it cannot be parsed. It is not printed, since any part of it may be a password.
    """
    try:
        url = make_url(storage)
    except (sqlalchemy.exc.ArgumentError, ValueError):  # ValueError: the port is not a number
        example = "sqlite:///study.db"  # without @: warn() takes what is before an @ for a password
        raise UserError(
            f"storage= is not the address of a database, such as {example}; leave it out for a journal file."
        ) from None
    credentials = re.match(r"[^:]+://[^:/]*:[^@]*@", storage)  # SQLAlchemy ends a password at its first @
    if credentials and "@" in storage[credentials.end() :]:
        raise UserError("storage= has a password with an unquoted '@'; write it as %40.")
    return url.set(drivername=f"{url.drivername}+{DRIVERS[url.drivername]}") if url.drivername in DRIVERS else url
