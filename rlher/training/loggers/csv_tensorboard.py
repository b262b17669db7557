"""SB3's log of a run: ``progress.csv`` and TensorBoard event files, continued when the run is resumed."""

import contextlib
import csv
import sys
import threading
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import CSVOutputFormat, KVWriter, Logger, make_output_format

from rlher.core.console import warn
from rlher.core.errors import UserError, os_error_reason


def make_logger(folder: Path, tensorboard: bool, rows: int = 0) -> Logger:
    """Return the logger of a run.

    :param rows: rows of ``progress.csv`` that are kept, if the run is resumed.
    :raises UserError: a file cannot be created.
    """
    try:
        writers = [NonFatalWriter(ContinuedCSV(folder / "progress.csv", rows), "progress.csv")]
        if tensorboard:
            writers.append(NonFatalWriter(make_output_format("tensorboard", str(folder)), "the TensorBoard file"))
    except OSError as error:
        advice = "free space or choose another folder with logs=…"
        raise UserError(f"cannot write {folder}: {os_error_reason(error)}; {advice}") from error
    return Logger(str(folder), list(writers))


class ContinuedCSV(CSVOutputFormat):
    """SB3's CSV file, which keeps the first rows that are there already.

    :param rows: number of rows to keep; later ones belong to steps that are done again. A warning says how many of
        them are missing; ``sys.maxsize`` keeps all, however many there are.
    """

    def __init__(self, path: Path, rows: int) -> None:
        header, kept = _first_rows(path, rows)
        if len(kept) < rows < sys.maxsize:
            warn(f"{path} is damaged: {rows - len(kept)} of its {rows} rows are missing; training continues.")
        super().__init__(str(path))
        self.rows = len(kept)
        """Number of rows in the file."""
        if header:
            self.keys = header
            csv.writer(self.file, lineterminator="\n").writerows([header, *kept])
            self.file.flush()

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a row."""
        super().write(key_values, key_excluded, step)
        self.rows += 1


def count_rows(logger: Logger) -> int:
    """Return the number of rows that a logger of :func:`make_logger` has in ``progress.csv``."""
    return sum(getattr(getattr(each, "writer", None), "rows", 0) for each in logger.output_formats)


def _first_rows(path: Path, count: int) -> tuple[list[str], list[list[str]]]:
    """Return the header and those of the first rows that are complete; empty if the header is missing or damaged."""
    try:
        *lines, _ = path.read_text(errors="replace").split("\n")  # a last line without its end was cut off
        header, *rows = csv.reader(line if _is_intact(line) else "" for line in lines[: count + 1])
    except (OSError, ValueError, csv.Error):
        return [], []
    return header, [row for row in rows if header and len(row) == len(header)]


def _is_intact(line: str) -> bool:
    """Return whether a line holds no zeros, as a power failure leaves them, and no bytes that are not UTF-8."""
    return line.isprintable() and "\ufffd" not in line


class NonFatalWriter(KVWriter):
    """A log writer that warns about its first OSError and ignores later ones."""

    def __init__(self, writer: KVWriter, name: str) -> None:
        self.writer, self._name, self._warned = writer, name, False
        threading.excepthook = _ignore_tensorboard_errors

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a row, as far as possible."""
        try:
            self.writer.write(key_values, key_excluded, step)
        except OSError as error:
            if not self._warned:
                warn(f"{self._name} cannot be written ({os_error_reason(error)}); the run continues without it.")
            self._warned = True

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self.writer.close()


def _ignore_tensorboard_errors(failure: threading.ExceptHookArgs) -> None:
    """Print no traceback of an OSError in TensorBoard's thread, which is raised again by the next write."""
    if not isinstance(failure.exc_value, OSError) or not type(failure.thread).__module__.startswith("tensorboard"):
        threading.__excepthook__(failure)
