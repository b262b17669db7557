"""Where a study lives: a journal file or a database, opened so that it survives what clusters do to it."""

import functools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy.exc
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from sqlalchemy.engine import URL, make_url

from rlher.core.console import redact
from rlher.core.errors import UserError, first_line

PATIENCE = 600.0
"""Seconds a running study waits for a database that went away."""
CONNECT_SECONDS = 10
TAIL = 2**16
"""Bytes at the end of a journal in which its last line is looked for."""
AWAY = (
    sqlalchemy.exc.OperationalError,
    sqlalchemy.exc.InterfaceError,
    sqlalchemy.exc.PendingRollbackError,  # optuna takes a query that broke off for one too long, and asks in parts
)
DRIVERS = {"postgresql": "psycopg", "mysql": "pymysql"}
# What optuna's cache in front of a database calls, and the two of the heartbeat.
CALLS = (
    "create_new_study",
    "delete_study",
    "set_study_user_attr",
    "set_study_system_attr",
    "get_study_id_from_name",
    "get_study_name_from_id",
    "get_study_directions",
    "get_study_user_attrs",
    "get_study_system_attrs",
    "get_all_studies",
    "_create_new_trial",
    "_set_trial_param",
    "get_trial_id_from_study_id_trial_number",
    "_get_best_trial_id",
    "set_trial_state_values",
    "set_trial_intermediate_value",
    "set_trial_user_attr",
    "set_trial_system_attr",
    "get_trial",
    "_get_trials",
    "record_heartbeat",
    "_get_stale_trial_ids",
)


def patient(call: Callable) -> Callable:
    """Repeat a database call until the server is back, for :data:`PATIENCE` seconds at most."""

    @functools.wraps(call)
    def repeat(*args: Any, **kwargs: Any) -> Any:
        deadline, pause = time.monotonic() + PATIENCE, 0.2
        while True:
            try:
                return call(*args, **kwargs)
            except (StorageInternalError, sqlalchemy.exc.DBAPIError) as error:
                if not _went_away(error) or time.monotonic() > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    return repeat


def _went_away(error: Exception) -> bool:
    return isinstance(error, AWAY) or isinstance(error.__cause__, AWAY)


class PatientStorage(RDBStorage):
    """Optuna's database storage, for studies that outlive a restart of the database."""


for _name in CALLS:
    setattr(PatientStorage, _name, patient(getattr(RDBStorage, _name)))


def open_storage(storage: str | None, folder: Path, heartbeat: int, on_stale: Callable) -> BaseStorage:
    """Open the journal in ``folder``, or the database named by a URL.

    :param heartbeat: seconds between signs of life in a database; a journal has none.
    :param on_stale: called with study and trial when a trial's worker gave none for twice that long.
    :raises UserError: the journal is damaged, the URL cannot be read, its driver is missing, or the server cannot be
        reached.
    """
    if storage is None:
        folder.mkdir(parents=True, exist_ok=True)
        return _open_journal(folder / "journal.log")
    url = _url(storage)
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.get_backend_name() in DRIVERS:
        options["connect_args"] = {"connect_timeout": CONNECT_SECONDS}
    try:
        return PatientStorage(
            url.render_as_string(hide_password=False),
            engine_kwargs=options,
            heartbeat_interval=heartbeat,
            heartbeat_stale_trial_callback=on_stale,
        )
    except ImportError as error:
        extra = f"pip install 'rlher[{url.get_backend_name()}]'"
        raise UserError(f"the driver of {url.drivername} is not installed: {extra} brings one.") from error
    except (sqlalchemy.exc.SQLAlchemyError, RuntimeError, ValueError, TypeError) as error:
        reason = first_line(getattr(error, "orig", None) or error)
        raise UserError(f"cannot use the storage {redact(storage)}: {reason}.") from error


class Journal(JournalFileBackend):
    """Optuna's journal file, of which a record that was never finished, on a full disk say, spoils no other.

    Optuna passes over a last line that it cannot read, but not once another follows, or has been written behind it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._mending = path, JournalFileSymlinkLock(str(path))
        super().__init__(str(path), self._mending)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append records, each a line of its own."""
        if self._unreadable():
            self._mending.acquire()
            try:
                os.truncate(self._path, self._path.stat().st_size - self._unreadable())
            finally:
                self._mending.release()
        super().append_logs(logs)

    def _unreadable(self) -> int:
        """Return the bytes of the last line, none where it is a record; somebody may be writing it."""
        with self._path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL, 0))
            tail = file.read()
            if b"\n" not in tail[:-1]:
                file.seek(0)
                tail = file.read()
        line = tail[tail.rfind(b"\n", 0, -1) + 1 :]
        try:
            whole = not line or (line.endswith(b"\n") and bool(json.loads(line)))
        except (ValueError, RecursionError):
            whole = False
        return 0 if whole else len(line)


def _open_journal(path: Path) -> JournalStorage:
    try:
        return JournalStorage(Journal(path))
    except OSError:
        raise
    except Exception as error:  # whatever Optuna stumbles over in a line that it did not write
        told = f"{type(error).__name__}: {error}"
        raise UserError(f"{path} is damaged ({told}): move it away to begin this study anew.") from error


def _url(storage: str) -> URL:
    try:
        url = make_url(storage)
    except (sqlalchemy.exc.ArgumentError, ValueError):  # ValueError: its port is no number
        # It is not repeated: nobody knows which part of it is the password.
        example = "sqlite:///study.db or postgresql://host/database"
        raise UserError(f"storage= holds no database address, such as {example}.") from None
    return url.set(drivername=f"{url.drivername}+{DRIVERS[url.drivername]}") if url.drivername in DRIVERS else url
