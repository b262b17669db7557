"""MLflow. Unless ``MLFLOW_TRACKING_URI`` is set, it writes a SQLite file in the run folder."""

import logging
import os
import time
from dataclasses import asdict

# Before the import: without a limit, MLflow retries for minutes when its server does not answer.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from rlher.core.nested import flatten
from rlher.runs.run_folder import Run

STATUS = {"finished": "FINISHED", "stopped": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
PARAMS_PER_BATCH = 100  # MLflow's limit


class MlflowService:
    """A run of MLflow; ``MLFLOW_EXPERIMENT_NAME`` names its experiment."""

    def __init__(self, run: Run) -> None:
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
        for start in range(0, len(params), PARAMS_PER_BATCH):
            self._client.log_batch(self._id, params=params[start : start + PARAMS_PER_BATCH])

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log numbers of one step."""
        now = int(time.time() * 1000)
        self._client.log_batch(self._id, metrics=[Metric(key, value, now, step) for key, value in numbers.items()])

    def finish(self, result: dict[str, float], status: str) -> None:
        """Log the result as metrics of step 0 and end the run."""
        if result:
            self.log(result, step=0)
        self._client.set_terminated(self._id, STATUS[status])
