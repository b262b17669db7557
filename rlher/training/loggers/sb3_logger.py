"""Stable-Baselines3's log of a run: gone on with where the run is resumed, and no harm to it where the disk is full."""

import contextlib
import csv
import io
import sys
import threading
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import CSVOutputFormat, KVWriter, Logger, make_output_format

from rlher.core.errors import UserError, os_error_reason

TIMESTEPS = "time/total_timesteps"
FILES = {"csv": "progress.csv", "tensorboard": "the TensorBoard file"}


def make_logger(folder: Path, tensorboard: bool, timesteps: int = 0) -> Logger:
    """Make the log of a run: ``progress.csv``, and events for TensorBoard where they are wanted.

    :param timesteps: steps the run has done already, where it is resumed.
    :raises UserError: a file cannot be made.
    """
    try:
        writers: dict[str, KVWriter] = {"csv": ContinuedCSV(folder / FILES["csv"], timesteps)}
        if tensorboard:
            writers["tensorboard"] = make_output_format("tensorboard", str(folder))
        return Logger(str(folder), [Spared(writer, FILES[kind]) for kind, writer in writers.items()])
    except OSError as error:
        raise UserError(f"cannot write {folder}: {os_error_reason(error)}.") from error


class ContinuedCSV(CSVOutputFormat):
    """Stable-Baselines3's CSV file, gone on with instead of begun anew.

    :param path: of the file.
    :param timesteps: rows of later steps are dropped: they will come again.
    """

    def __init__(self, path: Path, timesteps: int) -> None:
        kept = _rows_until(path, timesteps)
        super().__init__(str(path))
        if kept:
            self.keys = kept[0]
            csv.writer(self.file, lineterminator="\n").writerows(kept)
            self.file.flush()


def _rows_until(path: Path, timesteps: int) -> list[list[str]]:
    """Return the header and the rows of a file up to a step; nothing where it is missing or damaged."""
    try:
        header, *rows = csv.reader(io.StringIO(path.read_text()))
        column = header.index(TIMESTEPS)
        kept = [row for row in rows if len(row) == len(header) and (not row[column] or float(row[column]) <= timesteps)]
    except (OSError, ValueError, csv.Error):
        return []
    return [header, *kept]


class Spared(KVWriter):
    """A writer whose failures are told once, and then passed over.

    :param name: what to call its file in a sentence.
    """

    def __init__(self, writer: KVWriter, name: str) -> None:
        self._writer, self._name, self._told = writer, name, False
        threading.excepthook = _told_elsewhere

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a row, or as much of it as can be."""
        try:
            self._writer.write(key_values, key_excluded, step)
        except OSError as error:
            if not self._told:
                reason = error.strerror or error
                print(
                    f"rlher: {self._name} cannot be written ({reason}), which is no harm to the run.", file=sys.stderr
                )
            self._told = True

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._writer.close()


def _told_elsewhere(failure: threading.ExceptHookArgs) -> None:
    """Print no traceback of TensorBoard's thread, whose error comes up again where we write."""
    if not isinstance(failure.exc_value, OSError) or not type(failure.thread).__module__.startswith("tensorboard"):
        threading.__excepthook__(failure)
