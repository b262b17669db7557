"""The callback that evaluates the model during training and finds the best one."""

import time
from collections.abc import Callable
from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from rlher.core.errors import EnvironmentFault
from rlher.evaluation.metrics import COLUMNS, METRICS, Summary


class StopTraining(Exception):
    """Raised by a run's ``on_evaluation`` function to end the run early, with the status ``"stopped"``."""


class EvaluationCallback(BaseCallback):
    """Evaluate every ``freq`` steps.

    The best model is the one with the highest success rate; ties go to the higher return, then to the later model.

    :param evaluate: plays the evaluation episodes with the current policy.
    :param freq: environment steps between two evaluations.
    :param on_new_best: called when the model is the best so far.
    :param on_evaluation: called with all rows of ``evaluations.csv`` after each evaluation.
    """

    def __init__(
        self,
        evaluate: Callable[[], Summary],
        freq: int,
        on_new_best: Callable[[], None],
        on_evaluation: Callable[[list[dict[str, Any]]], None],
    ) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None
        self._evaluate, self._freq = evaluate, freq
        self._on_new_best, self._on_evaluation = on_new_best, on_evaluation
        self._next = freq
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds of training so far, including those before the run was resumed."""
        return time.monotonic() - self._started

    def state_dict(self) -> dict[str, Any]:
        """Return the evaluations so far, and when the next is due, as JSON values."""
        return {"rows": self.rows, "best": self.best, "next": self._next, "elapsed": self.elapsed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`state_dict`.

        :raises ValueError, KeyError, TypeError: the values are invalid.
        """
        self.rows = [{name: row[name] for name in COLUMNS} for row in state["rows"]]
        if not all(value is None or isinstance(value, int | float) for row in self.rows for value in row.values()):
            raise ValueError("an evaluation has a value that is not a number")
        steps = [row["timesteps"] for row in self.rows]
        self.best = state["best"] and self.rows[steps.index(state["best"]["timesteps"])]
        self._next = int(state["next"])
        self._started = time.monotonic() - float(state["elapsed"])

    def _on_rollout_start(self) -> None:
        self._evaluate_if_due()  # all updates of the steps so far are done

    def _on_training_end(self) -> None:
        self._evaluate_if_due()

    def _on_step(self) -> bool:
        return True

    def _evaluate_if_due(self) -> None:
        steps = self.model.num_timesteps
        if steps >= self._next:
            self.evaluate()
            self._next += self._freq * (1 + (steps - self._next) // self._freq)

    def evaluate(self) -> None:
        """Evaluate the model now and log the result.

        :raises EnvironmentFault: training diverged, that is, a weight of the policy is not finite.
        """
        if not all_finite(self.model):
            raise EnvironmentFault(f"training diverged before step {self.model.num_timesteps:,}.")
        values = {
            **self._evaluate(),
            "timesteps": self.model.num_timesteps,
            "updates": self.model._n_updates,
            "wall_seconds": round(self.elapsed, 3),
        }
        row = {name: values[name] for name in COLUMNS}
        self.rows.append(row)
        self._log(row)
        if self.best is None or _rank(row) >= _rank(self.best):
            self.best = row
            self._on_new_best()
        self._on_evaluation(self.rows)

    def _log(self, row: dict[str, Any]) -> None:
        for metric in METRICS:
            if row[metric.name] is not None:
                self.logger.record(f"eval/{metric.name}", row[metric.name])
        self.logger.record("env/restarts", self.training_env.total_restarts)  # type: ignore[attr-defined]
        self.logger.record("replay_buffer/nbytes", self.model.replay_buffer.nbytes)  # type: ignore[attr-defined]
        self.logger.dump(self.model.num_timesteps)


def all_finite(model: BaseAlgorithm) -> bool:
    """Return whether every weight of the model's policy is finite; it is not after training diverged."""
    return all(bool(th.isfinite(weights).all()) for weights in model.policy.parameters())


def _rank(row: dict[str, Any]) -> tuple[float, float]:
    return row["success_rate"], row["mean_reward"]
