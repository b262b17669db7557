"""SB3's log of a run: ``progress.csv`` and TensorBoard event files, continued when the run is resumed."""

import contextlib
import csv
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.logger import CSVOutputFormat, KVWriter, Logger, make_output_format

from rlher.core.console import warn
from rlher.core.errors import UserError, os_error_reason

LARGEST = 2**63
"""Bound of integers in the log; larger ones, of a forged checkpoint, are no valid floats."""


def make_logger(folder: Path, tensorboard: bool, rows: int = 0, pending: dict[str, Any] | None = None) -> Logger:
    """Return the logger of a run.

    :param rows: rows of ``progress.csv`` that are kept, if the run is resumed.
    :param pending: valid :func:`pending_values` of the logger that it continues.
    :raises UserError: a file cannot be created.
    """
    try:
        writers = [NonFatalWriter(ContinuedCSV(folder / "progress.csv", rows), "progress.csv")]
        if tensorboard:
            writers.append(NonFatalWriter(make_output_format("tensorboard", str(folder)), "the TensorBoard file"))
    except OSError as error:
        advice = "free space or choose another folder with logs=…"
        raise UserError(f"cannot write {folder}: {os_error_reason(error)}; {advice}") from error
    logger = Logger(str(folder), list(writers))
    for name, (number, count, excluded) in (pending or {}).items():
        logger.name_to_value[name], logger.name_to_excluded[name] = number, tuple(excluded)
        if count:
            logger.name_to_count[name] = count
    return logger


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


def pending_values(logger: Logger) -> dict[str, Any]:
    """Return what a logger has recorded for its next row, as JSON values; only numbers, so no videos and figures.

    :return: by column: its value; how many values that is the mean of, or 0 if it is no mean; the formats without it.
    """
    found = {}
    for name, value in logger.name_to_value.items():
        number = value.item() if isinstance(value, np.generic) else value
        if _is_number(number):
            excluded = logger.name_to_excluded.get(name, ("",))
            found[name] = [number, logger.name_to_count.get(name, 0), list(excluded)]
    return found


def require_pending_values(values: dict[str, Any]) -> None:
    """Raise ValueError or TypeError unless the values are as :func:`pending_values` returns them."""
    for name, (number, count, excluded) in values.items():
        if not _is_number(number) or not isinstance(count, int) or not 0 <= count < LARGEST:
            raise TypeError(f"{name} in the log is not a number")
        if not isinstance(excluded, list) or not all(isinstance(each, str) for each in excluded):
            raise TypeError(f"{name} in the log is left out by formats that are no names")


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < LARGEST)


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
