"""Where the numbers of a training run are logged: SB3's files in the run folder, and a tracking service.

``progress.csv`` and TensorBoard event files are continued when the run is resumed. ``logger=wandb`` or
``logger=<module>:<class>`` passes the same records on to a service.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import (
    CSVOutputFormat,
    KVWriter,
    Logger,
    TensorBoardOutputFormat,
    filter_excluded_keys,
)

from rlher.config.training import LOGGERS
from rlher.core.console import warn
from rlher.core.errors import UserError, describe_error, describe_value, os_error_reason, require_package
from rlher.core.files import user_error_on_write, write_text
from rlher.core.nested import finite_float, flatten
from rlher.core.rng import preserve_rng_state
from rlher.core.user_code import import_object, instantiate
from rlher.run.run_folder import TRAINING_LOG, RunFolder
from rlher.training.result import RunResult, Status


def make_logger(folder: Path, tensorboard: bool, rows: int = 0) -> Logger:
    """Return the logger of a run.

    :param rows: rows of ``progress.csv`` that a resumed run keeps; later ones belong to steps that are done again.
    :raises UserError: a file cannot be created.
    """
    path = folder / TRAINING_LOG
    with user_error_on_write(path):
        kept = path.read_text(errors="replace").splitlines(keepends=True)[: rows + 1] if count_rows(folder) else []
        write_text(path, "".join(kept))
        table = CSVOutputFormat(os.devnull)  # it would empty the file, and a kill before the next row lose all others
        table.keys = kept[0].strip().split(",") if kept else []
        table.file.close()
        table.file = path.open("r+")
        table.file.seek(0, os.SEEK_END)
        writers: list[KVWriter] = [NonFatalWriter(table, path)]
        if tensorboard:
            writers.append(NonFatalWriter(TensorBoardOutputFormat(str(folder)), folder / "events.out.tfevents"))
    return Logger(str(folder), writers)


def count_rows(folder: Path) -> int:
    """Return the number of rows of a run's ``progress.csv``, without its header."""
    path = folder / TRAINING_LOG
    return max(path.read_bytes().count(b"\n") - 1, 0) if path.exists() else 0


class NonFatalWriter(KVWriter):
    """A log file that warns about its first OSError and ignores later ones.

    :param path: named by the warning.
    """

    def __init__(self, writer: KVWriter, path: Path) -> None:
        self._writer, self._path, self._warned = writer, path, False

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a row, as far as possible."""
        try:
            self._writer.write(key_values, key_excluded, step)
        except OSError as error:
            if not self._warned:
                warn(f"{self._path} cannot be written ({os_error_reason(error)}); the run continues without it.")
            self._warned = True

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._writer.close()


# ---------------------------------------------------------------------------------------------- tracking services
#
# A service is a class that is built with the run. `log` takes the numbers of a step, `finish` the result.


class WandbService:
    """A run of Weights & Biases; ``WANDB_PROJECT`` names its project.

    With ``WANDB_MODE=offline`` everything stays in the run folder until ``wandb sync``.
    """

    def __init__(self, run: RunFolder) -> None:
        import wandb

        folder = str(run.folder.absolute())
        # W&B reads files of the current folder, `wandb/settings` and `config-defaults.yaml`, of whoever made it.
        with contextlib.chdir(Path(__file__).parent):
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "rlher"),
                name=f"{run.config.algo.name}/{run.folder.name}",
                dir=folder,
                config=asdict(run.config),
                # Neither is needed, and git would run what the .git/config of the current folder names.
                settings=wandb.Settings(console="off", quiet=True, disable_git=True, save_code=False),
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


def require_installed(name: str) -> None:
    """Raise UserError if a service, or its package, is not there; ``"none"`` needs none."""
    if name in LOGGERS:
        require_package(f"logger={name}", name)
    elif name != "none":
        import_object("logger", name)


@contextmanager
def log_to_service(name: str, run: RunFolder, model: BaseAlgorithm, result: RunResult) -> Iterator[None]:
    """Log to a service what the model's logger records within the block, and the run's result at its end.

    :param result: filled in by the time the block ends.
    """
    if name == "none":
        yield
        return
    writer = ServiceWriter(name, run)
    model.logger.output_formats.append(writer)
    try:
        yield
    finally:
        writer.finish(result)


class ServiceWriter(KVWriter):
    """An output format of SB3's logger that never affects the run once it is built.

    The first exception of the service is printed, and nothing is logged to it any more. Random numbers that it draws
    are not taken from the run's generators.

    :raises UserError: the user's own class cannot be built, or its objects lack a method.
    """

    def __init__(self, name: str, run: RunFolder) -> None:
        self._name, self._service = name, None
        if name in LOGGERS:
            self._service = self._call(lambda: import_object("logger", LOGGERS[name])(run))
            return
        with preserve_rng_state():
            self._service = instantiate("logger", name, None, run)
        if missing := [each for each in ("log", "finish") if not callable(getattr(self._service, each, None))]:
            got = describe_value(self._service)
            raise UserError(f"logger: {name} returned {got}, which lacks {' and '.join(missing)}.")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Log the numbers among the values."""
        service, numbers = self._service, _finite_numbers(filter_excluded_keys(key_values, key_excluded, self._name))
        if service is not None and numbers:
            self._call(lambda: service.log(numbers, step))

    def finish(self, result: RunResult) -> None:
        """Log the run's result."""
        numbers = _finite_numbers({f"final/{key}": value for key, value in flatten(result.to_json())})
        if (service := self._service) is not None:
            self._call(lambda: service.finish(numbers, result.status))

    def close(self) -> None:
        """Do nothing: SB3 closes its logger before the result is known."""

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            with preserve_rng_state():
                return function()
        except Exception as error:  # of any kind: network, login, database
            self._service = None
            warn(f"logging to {self._name} failed ({describe_error(error)}); the run continues without it.")


def _finite_numbers(values: dict[str, Any]) -> dict[str, float]:
    """Return the values that are finite numbers, as floats."""
    plain = {key: value.item() if isinstance(value, np.number) else value for key, value in values.items()}
    return {key: float(value) for key, value in plain.items() if finite_float(value) is not None}
