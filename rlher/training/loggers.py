"""Where the numbers of a training run are logged: SB3's files in the run folder, and trackers.

``progress.csv`` and TensorBoard event files are continued when the run is resumed. ``logger=wandb`` or
``logger=<module>:<class>`` passes the same records on to a tracker: Weights & Biases, or a class of the user's.
"""

import hashlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.logger import (
    CSVOutputFormat,
    KVWriter,
    Logger,
    TensorBoardOutputFormat,
    filter_excluded_keys,
)
from tensorboard.compat.proto.event_pb2 import Event, SessionLog

from rlher.config.training import TRACKERS
from rlher.core.console import warn
from rlher.core.errors import UserError, describe_error, describe_value, require_package
from rlher.core.nested import to_dotted_keys
from rlher.core.reading import finite_float
from rlher.core.rng import preserve_rng_state
from rlher.core.user_code import import_object, instantiate
from rlher.core.writing import atomic_write
from rlher.run.result import RunResult, Status
from rlher.run.run_folder import TRAINING_LOG_FILE, RunFolder, read_metadata


def make_logger(folder: Path, tensorboard: bool, rows: int = 0, timesteps: int = 0) -> Logger:
    """Return the logger of a run.

    :param rows: rows of ``progress.csv`` that a resumed run keeps; later ones belong to steps that are done again.
    :param timesteps: steps of a resumed run; TensorBoard hides the points of later steps.
    """
    path = folder / TRAINING_LOG_FILE
    kept: list[str] = []  # with the header
    if count_log_rows(folder):
        kept = path.read_text(errors="replace").splitlines(keepends=True)[: rows + 1]
    with atomic_write(path) as temporary:  # the table's file is renamed while it is open
        table = CSVOutputFormat(str(temporary))
        table.file.writelines(kept)
        table.file.flush()
    if kept:
        table.keys = kept[0].strip().split(",")
    writers: list[KVWriter] = [table]
    if tensorboard:
        board = TensorBoardOutputFormat(str(folder))
        start = Event(step=timesteps + 1, session_log=SessionLog(status=SessionLog.START))
        board.writer.file_writer.add_event(start)  # type: ignore[attr-defined]
        writers.append(board)
    return Logger(str(folder), writers)


def count_log_rows(folder: Path) -> int:
    """Return the number of rows of a run's ``progress.csv``, without its header."""
    path = folder / TRAINING_LOG_FILE
    return max(path.read_bytes().count(b"\n") - 1, 0) if path.exists() else 0


# ------------------------------------------------------------------------------------------------------- trackers
#
# A tracker is a class that is built with the run. `log` takes the numbers of a step, `finish` the result.


class WandbTracker:
    """A run of Weights & Biases; ``WANDB_PROJECT`` names its project.

    With ``WANDB_MODE=offline`` everything stays in the run folder until ``wandb sync``.
    """

    def __init__(self, run: RunFolder) -> None:
        import wandb

        folder = str(run.folder)
        # The same for all parts of a run that is resumed, and another one if its folder is made again.
        started = read_metadata(run.folder).get("started")
        identity = hashlib.sha256(f"{folder} {started}".encode()).hexdigest()[:16]
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "rlher"),
            id=identity,
            resume="allow",
            name=f"{run.config.algo.label}/{run.folder.name}",
            dir=folder,
            config=asdict(run.config),
            settings=wandb.Settings(console="off", quiet=True),
        )
        # Not W&B's own step: it drops what is logged for an earlier step, such as an evaluation that has just ended.
        self._run.define_metric("*", step_metric="timesteps")

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log numbers of one step."""
        self._run.log({**numbers, "timesteps": step})

    def finish(self, result: dict[str, float], status: Status) -> None:
        """Write the result to the run's summary and end the run."""
        self._run.summary.update({**result, "status": status.value})
        self._run.finish(exit_code=0 if status in (Status.FINISHED, Status.STOPPED) else 1)


def require_tracker(name: str) -> None:
    """Raise UserError if a tracker, or its package, is not there; ``"none"`` needs none."""
    if name in TRACKERS:
        require_package(f"logger={name}", name)
    elif name != "none":
        import_object("logger", name)


class TrackerWriter(KVWriter):
    """An output format of SB3's logger that never affects the run once it is built.

    The first exception of the tracker is printed, and nothing is logged to it any more. Random numbers that it draws
    are not taken from the run's generators.

    :raises UserError: it cannot be built, or lacks a method.
    """

    def __init__(self, run: RunFolder) -> None:
        self._name = name = run.config.logger
        self._tracker: Any = None
        """None if there is no tracker, or if it has failed."""
        if name == "none":
            return
        with preserve_rng_state():
            self._tracker = instantiate("logger", TRACKERS.get(name, name), None, run)
        if missing := [method for method in ("log", "finish") if not callable(getattr(self._tracker, method, None))]:
            got = describe_value(self._tracker)
            raise UserError(f"logger: {name} returned {got}, which lacks {' and '.join(missing)}.")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Log the numbers among the values."""
        if numbers := _finite_numbers(filter_excluded_keys(key_values, key_excluded, self._name)):
            self._call("log", numbers, step)

    def finish(self, result: RunResult) -> None:
        """Log the run's result."""
        numbers = _finite_numbers({f"final/{key}": value for key, value in to_dotted_keys(result.to_dict())})
        self._call("finish", numbers, result.status)

    def close(self) -> None:
        """Do nothing: SB3 closes its logger before the result is known."""

    def _call(self, method: str, *arguments: Any) -> None:
        if self._tracker is None:
            return
        try:
            with preserve_rng_state():
                getattr(self._tracker, method)(*arguments)
        except Exception as error:  # of any kind: network, login, database
            self._tracker = None
            warn(f"logging to {self._name} failed ({describe_error(error)}); the run continues without it.")


def _finite_numbers(values: dict[str, Any]) -> dict[str, float]:
    """Return the values that are finite numbers, as floats."""
    plain = {key: value.item() if isinstance(value, np.number) else value for key, value in values.items()}
    return {key: float(value) for key, value in plain.items() if finite_float(value) is not None}
