"""Optuna's journal file, made robust against a record that was cut off, by a full disk for example.

Optuna skips an unreadable last line, but once another record follows it, or continues it, the journal is unreadable.
The backend below removes such a line before it appends.
"""

import json
import os
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.storages.journal._storage import JournalOperation

from rlher.core.errors import UserError

TAIL_BYTES = 2**12
"""How much of the end of the file is read first to find the last line."""


class RepairingJournal(JournalFileBackend):
    """Journal file that drops an incomplete last record before the next one is appended.

    Optuna waits for the disk after each record, a dozen times a trial. Here only records that change a trial's state
    are waited for: if a power failure damages the end of the journal, trials that were running start again.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._append_lock = path, JournalFileSymlinkLock(str(path))
        super().__init__(str(path), self._append_lock)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append records, one a line."""
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        self._append_lock.acquire()
        try:
            if incomplete := self._incomplete_bytes():
                os.truncate(self._path, self._path.stat().st_size - incomplete)
            with self._path.open("ab") as file:
                file.write(lines.encode())
                file.flush()
                if any(log["op_code"] == JournalOperation.SET_TRIAL_STATE_VALUES for log in logs):
                    os.fsync(file.fileno())
        finally:
            self._append_lock.release()

    def _incomplete_bytes(self) -> int:
        """Return the length of the last line if it is not a complete record, else 0."""
        with self._path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL_BYTES, 0))
            tail = file.read()
            if b"\n" not in tail[:-1]:
                file.seek(0)
                tail = file.read()
        line = tail[tail.rfind(b"\n", 0, -1) + 1 :]
        try:
            is_complete = not line or (line.endswith(b"\n") and bool(json.loads(line)))
        except (ValueError, RecursionError):
            is_complete = False
        return 0 if is_complete else len(line)


def open_journal(path: Path) -> JournalStorage:
    """Open or create a journal.

    :raises UserError: its records cannot be replayed.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"cannot use the storage {path}: it is not a regular file; move it away to start a new study.")
    try:
        return JournalStorage(RepairingJournal(path))
    except OSError:
        raise
    except Exception as error:  # Optuna raises all kinds of errors on records that it did not write
        problem = f"it is damaged ({type(error).__name__}: {error}); move it away to start a new study"
        raise UserError(f"cannot use the storage {path}: {problem}.") from error
