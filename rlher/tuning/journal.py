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

from rlher.core.errors import UserError

TAIL_BYTES = 2**16
"""How much of the end of the file is read first to find the last line."""


class RepairingJournal(JournalFileBackend):
    """Journal file that drops an incomplete last record before the next one is appended."""

    def __init__(self, path: Path) -> None:
        self._path, self._repair_lock = path, JournalFileSymlinkLock(str(path))
        super().__init__(str(path), self._repair_lock)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append records, one a line."""
        if self._incomplete_bytes():
            self._repair_lock.acquire()
            try:  # again under the lock: another process may have been writing the line
                os.truncate(self._path, self._path.stat().st_size - self._incomplete_bytes())
            finally:
                self._repair_lock.release()
        super().append_logs(logs)

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
