"""Stable-Baselines3's log of a run, which costs no run where it cannot be written."""

import contextlib
import sys
import threading
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import KVWriter, Logger, make_output_format

from rlher.errors import UserError, cause

FILES = {"csv": "progress.csv", "tensorboard": "the TensorBoard file"}


def make_logger(folder: Path, tensorboard: bool) -> Logger:
    """Make the log of a run: ``progress.csv``, and events for TensorBoard where they are wanted.

    :raises UserError: a file cannot be made.
    """
    try:
        kinds = ["csv", "tensorboard"] if tensorboard else ["csv"]
        return Logger(str(folder), [Spared(make_output_format(kind, str(folder)), FILES[kind]) for kind in kinds])
    except OSError as error:
        raise UserError(f"cannot write {folder}: {cause(error)}.") from error


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
