"""Services that are told a run's numbers beside its own files: Weights & Biases and MLflow, by way of SB3's logger.

Both work without a network: ``WANDB_MODE=offline`` keeps everything in the run folder until ``wandb sync``, and MLflow
writes a SQLite file there unless ``MLFLOW_TRACKING_URI`` says otherwise.
"""

import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any, Protocol

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import KVWriter, filter_excluded_keys

from rlher.core.console import redact, warn
from rlher.core.errors import UserError
from rlher.core.nested import flatten
from rlher.core.rng import preserve_rng_state
from rlher.runs.run_folder import Run


class Service(Protocol):
    """What keeps the numbers of one run."""

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Take numbers of one moment."""

    def finish(self, result: dict[str, float], status: str) -> None:
        """Take the last word on the run: ``"finished"``, ``"stopped"``, ``"interrupted"`` or ``"failed"``."""


class Wandb:
    """A run of Weights & Biases."""

    def __init__(self, run: Run) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "rlher"),
            name=_name(run),
            dir=str(run.folder),
            config=asdict(run.config),
            settings=wandb.Settings(console="off", quiet=True),
        )

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log them."""
        self._run.log(numbers, step=step)

    def finish(self, result: dict[str, float], status: str) -> None:
        """Put the result into the summary."""
        self._run.summary.update({**result, "status": status})
        self._run.finish(exit_code=0 if status in ("finished", "stopped") else 1)


class Mlflow:
    """A run of MLflow."""

    STATUS = {"finished": "FINISHED", "stopped": "FINISHED", "interrupted": "KILLED"}  # noqa: RUF012
    BATCH = 100  # parameters that MLflow takes at a time

    def __init__(self, run: Run) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # a server that is away would hold us for minutes
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        self._metric: Callable[..., Any] = Metric
        folder = run.folder.resolve()
        address = os.environ.get("MLFLOW_TRACKING_URI")
        self._client = MlflowClient(tracking_uri=address or f"sqlite:///{folder}/mlflow.db")
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "rlher")
        found = self._client.get_experiment_by_name(name)
        place = None if address else (folder / "mlflow").as_uri()
        experiment = found.experiment_id if found else self._client.create_experiment(name, artifact_location=place)
        self._id = self._client.create_run(experiment, run_name=_name(run)).info.run_id
        settings = [Param(key, str(value)) for key, value in flatten(asdict(run.config))]
        for start in range(0, len(settings), self.BATCH):
            self._client.log_batch(self._id, params=settings[start : start + self.BATCH])

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log them."""
        now = int(time.time() * 1000)
        self._client.log_batch(self._id, metrics=[self._metric(key, numbers[key], now, step) for key in numbers])

    def finish(self, result: dict[str, float], status: str) -> None:
        """Log the result as metrics of their own."""
        if result:
            self.log(result, step=0)
        self._client.set_terminated(self._id, self.STATUS.get(status, "FAILED"))


SERVICES: dict[str, Callable[[Run], Service]] = {"wandb": Wandb, "mlflow": Mlflow}


def require(name: str) -> None:
    """Refuse a service whose package is not there.

    :raises UserError: with the line that installs it.
    """
    if name in SERVICES and find_spec(name) is None:
        pip = f"pip install 'rlher[{name}]' (in a checkout '.[{name}]')"
        raise UserError(f"logger={name} needs {name}, which is not installed: {pip}")


@contextmanager
def telling(name: str, run: Run, model: BaseAlgorithm, result: dict[str, Any]) -> Iterator[None]:
    """Tell a service all that the model's logger is told in the block, and the run's result at its end.

    A service that fails is left alone from then on, with a sentence: the run and its own files do not depend on it.

    :param name: one of :data:`SERVICES`, or ``"none"``.
    :param result: what ``result.json`` will hold, filled in by the time the block ends.
    """
    if name not in SERVICES:
        yield
        return
    teller = Teller(name, run)
    model.logger.output_formats.append(teller)
    try:
        yield
    finally:
        teller.finish(result)


class Teller(KVWriter):
    """An output of SB3's logger that never disturbs the run: neither by its failures nor by its random numbers."""

    def __init__(self, name: str, run: Run) -> None:
        self._name = name
        self._service: Service | None = None
        self._attempt(lambda: setattr(self, "_service", SERVICES[name](run)))

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Pass on the numbers among the values."""
        numbers = _numbers(filter_excluded_keys(key_values, key_excluded, self._name))
        service = self._service
        if service is not None and numbers:
            self._attempt(lambda: service.log(numbers, step))

    def finish(self, result: dict[str, Any]) -> None:
        """Pass on how the run ended."""
        final = _numbers({f"final/{key}": value for key, value in flatten(result)})
        service = self._service
        if service is not None:
            self._attempt(lambda: service.finish(final, result["status"]))

    def close(self) -> None:
        """Do nothing: the result is still to come."""

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            with preserve_rng_state():
                work()
        except Exception as error:  # of a network, a login, a database: none of the run's business
            self._service = None
            first = (redact(str(error)).strip().splitlines() or [""])[0]
            why = f"{type(error).__name__}: {first}".rstrip(".")
            warn(f"nothing more is logged to {self._name}, the run goes on. {why}.")


def _name(run: Run) -> str:
    return f"{run.config.algo.name}/{run.folder.name}"


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    """Keep what is a finite number."""
    kept = {}
    for key, value in values.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number) and not isinstance(value, str | bool):
            kept[key] = number
    return kept
