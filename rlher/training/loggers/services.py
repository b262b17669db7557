"""Pass the records of SB3's logger on to the tracking service of ``logger=<name>``: Weights & Biases or MLflow."""

import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Protocol

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import KVWriter, filter_excluded_keys

from rlher.core.console import warn
from rlher.core.errors import first_line, require_package
from rlher.core.nested import flatten
from rlher.core.rng import preserve_rng_state
from rlher.runs.run_folder import Run
from rlher.training.result import RunResult, Status


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
