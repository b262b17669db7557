"""SB3's log of a run: ``progress.csv`` and TensorBoard event files, continued when the run is resumed."""

import contextlib
import csv
import io
import threading
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import CSVOutputFormat, KVWriter, Logger, make_output_format

from rlher.core.console import warn
from rlher.core.errors import UserError, os_error_reason

TIMESTEPS = "time/total_timesteps"


def make_logger(folder: Path, tensorboard: bool, timesteps: int = 0) -> Logger:
    """Return the logger of a run.

    :param timesteps: steps already done, if the run is resumed.
    :raises UserError: a file cannot be created.
    """
    try:
        writers = [NonFatalWriter(ContinuedCSV(folder / "progress.csv", timesteps), "progress.csv")]
        if tensorboard:
            writers.append(NonFatalWriter(make_output_format("tensorboard", str(folder)), "the TensorBoard file"))
    except OSError as error:
        advice = "free space or choose another folder with logs=…"
        raise UserError(f"cannot write {folder}: {os_error_reason(error)}; {advice}") from error
    return Logger(str(folder), list(writers))


class ContinuedCSV(CSVOutputFormat):
    """SB3's CSV file, which keeps the rows that are there already.

    :param timesteps: rows of later steps are deleted, because these steps are done again.
    """

    def __init__(self, path: Path, timesteps: int) -> None:
        header, rows = _rows_until(path, timesteps)
        super().__init__(str(path))
        if header:
            self.keys = header
            csv.writer(self.file, lineterminator="\n").writerows([header, *rows])
            self.file.flush()


def _rows_until(path: Path, timesteps: int) -> tuple[list[str], list[list[str]]]:
    """Return the header, and the rows up to a step; empty if the file is missing or damaged."""
    try:
        header, *rows = csv.reader(io.StringIO(path.read_text()))
        column = header.index(TIMESTEPS)
        whole = (row for row in rows if len(row) == len(header))
        return header, [row for row in whole if not row[column] or float(row[column]) <= timesteps]
    except (OSError, ValueError, csv.Error):
        return [], []


class NonFatalWriter(KVWriter):
    """A log writer that warns about its first OSError and ignores later ones."""

    def __init__(self, writer: KVWriter, name: str) -> None:
        self._writer, self._name, self._warned = writer, name, False
        threading.excepthook = _ignore_tensorboard_errors

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a row, as far as possible."""
        try:
            self._writer.write(key_values, key_excluded, step)
        except OSError as error:
            if not self._warned:
                warn(f"{self._name} cannot be written ({os_error_reason(error)}); the run continues without it.")
            self._warned = True

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._writer.close()


def _ignore_tensorboard_errors(failure: threading.ExceptHookArgs) -> None:
    """Print no traceback of an OSError in TensorBoard's thread, which is raised again by the next write."""
    if not isinstance(failure.exc_value, OSError) or not type(failure.thread).__module__.startswith("tensorboard"):
        threading.__excepthook__(failure)
