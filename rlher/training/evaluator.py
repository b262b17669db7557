"""Evaluations of the model during and after training. The best model is kept; each may be kept."""

import time
from collections import deque
from typing import Any

from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.core.reading import finite_float
from rlher.core.writing import write_bytes
from rlher.evaluation.evaluations_csv import EVALUATION_COLUMNS, EvaluationRows, write_evaluations
from rlher.evaluation.metrics import METRICS
from rlher.evaluation.parallel_evaluation import EvaluationPool, RunningEvaluation
from rlher.run import model_file
from rlher.run.result import ShouldStop
from rlher.run.run_folder import RunFolder
from rlher.training.best_model import BestModel, best_row


class TrainingStopped(Exception):
    """The run's ``should_stop`` function has ended the run."""


class Evaluator:
    """Evaluates the model of a run: every ``eval.freq`` steps, while training continues, and at its end.

    Results go into the run folder.

    At most ``eval.workers`` evaluations are played side by side. Their rows are recorded in order; when they are
    recorded does not affect training.

    :param model: model that is trained.
    :param start_time: monotonic time at which the run was started.
    :param should_stop: see :func:`~rlher.training.train_run.train_run`. Training waits for each evaluation.
    """

    def __init__(
        self, run: RunFolder, model: OffPolicyAlgorithm, start_time: float, should_stop: ShouldStop | None = None
    ) -> None:
        self.rows: EvaluationRows = []
        self.best_model = BestModel(run)
        self._running: deque[RunningEvaluation] = deque()
        self._run = run
        self._model = model
        self._pool = EvaluationPool(run.config)
        self._should_stop = should_stop
        self._freq: int = run.config.eval.freq  # type: ignore[assignment]  # set by resolve_auto_values
        self._last_step = 0
        """Step of the last evaluation."""
        self._start_time = start_time

    def close(self) -> None:
        """End the processes that play the episodes."""
        self._pool.close()

    @property
    def elapsed(self) -> float:
        """Seconds of the run so far, including those before it was resumed."""
        return time.monotonic() - self._start_time

    def write_files(self) -> None:
        """Write the evaluations and the best model so far into the run folder."""
        write_evaluations(self._run.folder, self.rows)
        self.best_model.write()

    def start_if_due(self) -> None:
        """Start to evaluate the current model if an evaluation is due."""
        if self._model.num_timesteps // self._freq > self._last_step // self._freq:
            self.finish_running(except_newest=(self._run.config.eval.workers or 1) - 1)
            self.start()

    def start(self) -> None:
        """Start to evaluate the current model.

        :raises RunError: training diverged; or, without worker processes, the environment failed.
        """
        self._last_step = self._model.num_timesteps
        eval_config = self._run.config.eval
        running = self._pool.start(
            model_file.to_bytes(self._model),
            eval_config.episodes,
            eval_config.seed,
            timesteps=self._last_step,
            updates=self._model._n_updates,
            wall_seconds=round(self.elapsed, 3),
        )
        self._running.append(running)

    def record_finished(self) -> None:
        """Record the results of evaluations that have ended; wait for all if ``should_stop`` may end the run.

        :raises RunError: the environment failed in an evaluation.
        """
        must_wait = self._should_stop is not None
        while self._running and (must_wait or self._running[0].done()):
            self._finish_oldest()

    def finish_running(self, except_newest: int = 0) -> None:
        """Wait for the evaluations in progress, except the newest ones, and record their results.

        :raises RunError: the environment failed in an evaluation.
        """
        while len(self._running) > except_newest:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        """Wait for the oldest evaluation in progress, and record its result."""
        running = self._running.popleft()
        values = {**running.wait(), **running.columns}
        row = {name: values[name] for name in EVALUATION_COLUMNS}
        self.rows.append(row)
        self._log(row)
        write_evaluations(self._run.folder, self.rows)
        if self._run.config.eval.keep_models:
            path = self._run.model_path(str(row["timesteps"]))
            path.parent.mkdir(exist_ok=True)
            write_bytes(path, running.model_content)
        self.best_model.keep_if_best(self.rows, running.model_content)
        if self._should_stop and self._should_stop(self.rows):
            raise TrainingStopped

    def evaluate_final(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Evaluate the last model, and the best model if it has another step, on seeds not used to choose it.

        With ``engine.overlap``, the evaluation at the last step measured the model before its last updates. If this
        evaluation was the best, the last model is saved as the best.

        :return: the summary of the last model, and the summary of the best model with the step at which it was saved.
        """
        n_episodes, seed = self._run.config.eval.final_episodes, self._run.config.eval.final_seed
        last_steps = self._model.num_timesteps
        last_model = model_file.to_bytes(self._model)
        best, best_model = best_row(self.rows), self.best_model.content
        if best is None or best_model is None or best["timesteps"] >= last_steps:
            best, best_model = {"timesteps": last_steps}, last_model
            self.best_model.keep(last_model)
        last_running = self._pool.start(last_model, n_episodes, seed)
        is_same = best_model is last_model
        best_running = last_running if is_same else self._pool.start(best_model, n_episodes, seed)
        return last_running.wait(), {**best_running.wait(), "timesteps": best["timesteps"]}

    def _log(self, row: dict[str, Any]) -> None:
        """Log a row separately, because the numbers that the logger has collected since belong to a later step."""
        values: dict[str, Any] = {"time/total_timesteps": row["timesteps"]}
        values |= {f"eval/{metric.name}": row[metric.name] for metric in METRICS if row[metric.name] is not None}
        excluded: dict[str, Any] = dict.fromkeys(values)
        for writer in self._model.logger.output_formats:
            writer.write(values, excluded, row["timesteps"])

    # ------------------------------------------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return the evaluations so far as JSON values. No evaluation may be in progress."""
        return {"rows": self.rows, "elapsed": self.elapsed}

    def load_state_dict(self, state: dict[str, Any], best_model: bytes | None) -> None:
        """Restore a value of :meth:`state_dict`, and the best model.

        :raises ValueError, KeyError, TypeError: the values are invalid.
        """
        self.best_model.content = best_model
        self.rows = [{name: row[name] for name in EVALUATION_COLUMNS} for row in state["rows"]]
        compared = [row[name] for row in self.rows for name in ("success_rate", "mean_reward")]
        if any(finite_float(value) is None for value in compared):
            raise ValueError("an evaluation lacks its success rate or its return")
        self._last_step = int(self.rows[-1]["timesteps"]) if self.rows else 0
        self._start_time -= float(state["elapsed"])
