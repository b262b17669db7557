"""SB3's log of a run: ``progress.csv`` and TensorBoard event files, continued when the run is resumed."""

import contextlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.logger import CSVOutputFormat, KVWriter, Logger, make_output_format

from rlher.core.console import warn
from rlher.core.errors import UserError, os_error_reason


def make_logger(folder: Path, tensorboard: bool, state: dict[str, Any] | None = None) -> Logger:
    """Return the logger of a run.

    :param state: the :func:`logger_state` that a resumed run continues from; None: a new run.
    :raises UserError: a file cannot be created.
    """
    state = state or {"rows": 0, "pending": {}}
    try:
        writers = [NonFatalWriter(ContinuedCSV(folder / "progress.csv", state["rows"]), "progress.csv")]
        if tensorboard:
            writers.append(NonFatalWriter(make_output_format("tensorboard", str(folder)), "the TensorBoard file"))
    except OSError as error:
        advice = "free space or choose another folder with logs=…"
        raise UserError(f"cannot write {folder}: {os_error_reason(error)}; {advice}") from error
    logger = Logger(str(folder), list(writers))
    for name, (number, count, excluded) in state["pending"].items():
        logger.name_to_value[name], logger.name_to_excluded[name] = number, tuple(excluded)
        if count:
            logger.name_to_count[name] = count
    return logger


def logger_state(logger: Logger) -> dict[str, Any]:
    """Return what a resumed run needs to continue a logger of :func:`make_logger`, as JSON values.

    :return: ``"rows"`` of ``progress.csv``; ``"pending"``: what was recorded for its next row, by column: the number,
        how many numbers it is the mean of (0: no mean), the formats that leave it out. Videos and figures are dropped.
    """
    rows = (getattr(getattr(each, "writer", None), "rows", 0) for each in logger.output_formats)
    pending = {}
    for name, value in logger.name_to_value.items():
        number = value.item() if isinstance(value, np.generic) else value
        if isinstance(number, int | float):
            excluded = logger.name_to_excluded.get(name, ("",))
            pending[name] = [number, logger.name_to_count.get(name, 0), list(excluded)]
    return {"rows": sum(rows), "pending": pending}


def require_logger_state(state: dict[str, Any]) -> None:
    """Raise an exception unless a :func:`logger_state` is valid."""
    counts = [state["rows"], *(count for _, count, _ in state["pending"].values())]
    if not all(isinstance(count, int) and 0 <= count < 2**63 for count in counts):
        raise ValueError("a count in the log is invalid")
    for number, _, excluded in state["pending"].values():
        if not isinstance(number, int | float) or not all(isinstance(each, str) for each in excluded):
            raise TypeError("the log has a value that is not a number")
        float(number)  # an integer may be too large


class ContinuedCSV(CSVOutputFormat):
    """SB3's CSV file, which keeps the first rows that are there already.

    :param rows: number of rows to keep; the rows after them belong to steps that are done again.
    """

    def __init__(self, path: Path, rows: int) -> None:
        text = path.read_text(errors="replace") if rows and path.exists() else ""
        kept = text.splitlines(keepends=True)[: rows + 1]
        super().__init__(str(path))
        self.rows = max(len(kept) - 1, 0)
        """Number of rows in the file."""
        if kept:
            self.keys = kept[0].rstrip("\n").split(",")
            self.file.writelines(kept)
            self.file.flush()

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a row."""
        super().write(key_values, key_excluded, step)
        self.rows += 1


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
