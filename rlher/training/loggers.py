"""Where the numbers of a training run are logged: SB3's files in the run folder, and a tracking service.

``progress.csv`` and TensorBoard event files are continued when the run is resumed. ``logger=<name>`` passes the same
records on to Weights & Biases or MLflow.
"""

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import (
    CSVOutputFormat,
    KVWriter,
    Logger,
    filter_excluded_keys,
    make_output_format,
)

from rlher.core.console import warn
from rlher.core.errors import UserError, first_line, os_error_reason, require_package
from rlher.core.nested import flatten
from rlher.core.rng import preserve_rng_state
from rlher.run.run_folder import Run
from rlher.training.result import RunResult, Status


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


# ---------------------------------------------------------------------------------------------- tracking services


class Service(Protocol):
    """A run of a tracking service, created with the run that it logs."""

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log numbers of one step."""

    def finish(self, result: dict[str, float], status: Status) -> None:
        """Log the result and end the run."""


class WandbService:
    """A run of Weights & Biases; ``WANDB_PROJECT`` names its project.

    With ``WANDB_MODE=offline`` everything stays in the run folder until ``wandb sync``.
    """

    def __init__(self, run: Run) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "rlher"),
            name=f"{run.config.algo.name}/{run.folder.name}",
            dir=str(run.folder),
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


class MlflowService:
    """A run of MLflow; ``MLFLOW_EXPERIMENT_NAME`` names its experiment.

    Unless ``MLFLOW_TRACKING_URI`` is set, it writes a SQLite file in the run folder.
    """

    PARAMS_PER_BATCH = 100  # MLflow's limit

    def __init__(self, run: Run) -> None:
        # Before the import: without a limit, MLflow retries for minutes when its server does not answer.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient
        from mlflow.entities import Param

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        folder = run.folder.resolve()
        address = os.environ.get("MLFLOW_TRACKING_URI")
        self._client = MlflowClient(tracking_uri=address or f"sqlite:///{folder}/mlflow.db")
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "rlher")
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            artifacts = None if address else (folder / "mlflow").as_uri()
            experiment_id = self._client.create_experiment(name, artifact_location=artifacts)
        else:
            experiment_id = experiment.experiment_id
        run_name = f"{run.config.algo.name}/{run.folder.name}"
        self._id = self._client.create_run(experiment_id, run_name=run_name).info.run_id
        params = [Param(key, str(value)) for key, value in flatten(asdict(run.config))]
        for start in range(0, len(params), self.PARAMS_PER_BATCH):
            self._client.log_batch(self._id, params=params[start : start + self.PARAMS_PER_BATCH])

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log numbers of one step."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._id, metrics=[Metric(key, value, now, step) for key, value in numbers.items()])

    def finish(self, result: dict[str, float], status: Status) -> None:
        """Log the result as metrics of step 0 and end the run."""
        if result:
            self.log(result, step=0)
        states = {Status.INTERRUPTED: "KILLED", Status.FAILED: "FAILED"}
        self._client.set_terminated(self._id, states.get(status, "FINISHED"))


SERVICES: dict[str, Callable[[Run], Service]] = {"wandb": WandbService, "mlflow": MlflowService}
"""The services by name, which is also the name of their package."""


def require_installed(name: str) -> None:
    """Raise UserError if the package of a service is not installed; ``"none"`` needs none."""
    if name in SERVICES:
        require_package(f"logger={name}", name)


@contextmanager
def log_to_service(name: str, run: Run, model: BaseAlgorithm, result: RunResult) -> Iterator[None]:
    """Log to a service what the model's logger records within the block, and the run's result at its end.

    :param result: filled in by the time the block ends.
    """
    if name not in SERVICES:
        yield
        return
    writer = ServiceWriter(name, run)
    model.logger.output_formats.append(writer)
    try:
        yield
    finally:
        writer.finish(result)


class ServiceWriter(KVWriter):
    """An output format of SB3's logger that never affects the run.

    The first exception of the service is printed, and nothing is logged to it any more. Random numbers that it draws
    are not taken from the run's generators.
    """

    def __init__(self, name: str, run: Run) -> None:
        self._name = name
        self._service: Service | None = None
        self._service = self._call(lambda: SERVICES[name](run))

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
            reason = f"{type(error).__name__}: {first_line(error)}"
            warn(f"logging to {self._name} failed ({reason}); the run continues without it.")


def _finite_numbers(values: dict[str, Any]) -> dict[str, float]:
    """Return the values that are finite numbers, as floats."""
    numbers = {}
    for key, value in values.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number) and not isinstance(value, str | bool):
            numbers[key] = number
    return numbers
