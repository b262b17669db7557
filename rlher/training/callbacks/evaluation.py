"""The callback that evaluates the model during training and finds the best one."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter

from rlher.core.errors import EnvironmentFault
from rlher.evaluation.metrics import COLUMNS, METRICS, summarize
from rlher.evaluation.workers import Evaluation

TIMESTEPS = "time/total_timesteps"


class StopTraining(Exception):
    """Raised by a run's ``on_evaluation`` function to end the run early, with the status ``"stopped"``."""


@dataclass(frozen=True)
class PendingEvaluation:
    """An evaluation whose episodes are being played.

    :param row: the columns of ``evaluations.csv`` that are known already.
    :param logged: values that are only logged.
    :param model: content of the model file that is evaluated.
    """

    row: dict[str, Any]
    logged: dict[str, Any]
    model: bytes
    played: Evaluation


class EvaluationCallback(BaseCallback):
    """Evaluate every ``freq`` steps, while training continues.

    The best model is the one with the highest success rate; ties go to the higher return, then to the later model. At
    most one evaluation is played at a time, so rows arrive in order. Training does not depend on when a row arrives.

    :param snapshot: returns the current model as the content of a model file.
    :param start: starts to play evaluation episodes with such a model.
    :param freq: environment steps between two evaluations.
    :param on_result: called after each evaluation with all rows of ``evaluations.csv``, the evaluated model, and
        whether it is the best so far.
    :param waits: wait for each evaluation at once, because ``on_result`` may end the run.
    """

    def __init__(
        self,
        snapshot: Callable[[], bytes],
        start: Callable[[bytes], Evaluation],
        freq: int,
        on_result: Callable[[list[dict[str, Any]], bytes, bool], None],
        waits: bool = False,
    ) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None
        self.pending: PendingEvaluation | None = None
        self._snapshot, self._start, self._freq = snapshot, start, freq
        self._on_result, self._waits = on_result, waits
        self._next = freq
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds of training so far, including those before the run was resumed."""
        return time.monotonic() - self._started

    def state_dict(self) -> dict[str, Any]:
        """Return the evaluations so far, and when the next is due, as JSON values; without ``pending.model``."""
        pending = self.pending and {"row": self.pending.row, "logged": self.pending.logged}
        return {"rows": self.rows, "best": self.best, "next": self._next, "elapsed": self.elapsed, "pending": pending}

    def load_state_dict(self, state: dict[str, Any], pending_model: bytes | None) -> None:
        """Restore a value of :meth:`state_dict`, and start the pending evaluation again.

        :raises ValueError, KeyError, TypeError: the values are invalid.
        """
        self.rows = [{name: row[name] for name in COLUMNS} for row in state["rows"]]
        _require_numbers(*self.rows)
        steps = [row["timesteps"] for row in self.rows]
        self.best = state["best"] and self.rows[steps.index(state["best"]["timesteps"])]
        self._next = int(state["next"])
        self._started = time.monotonic() - float(state["elapsed"])
        if pending := state.get("pending"):
            if pending_model is None:
                raise ValueError("the model of the pending evaluation is missing")
            row, logged = ({str(name): value for name, value in pending[part].items()} for part in ("row", "logged"))
            _require_numbers(row, logged)
            row = {name: row[name] for name in ("timesteps", "updates", "wall_seconds")}
            self.pending = PendingEvaluation(row, logged, pending_model, self._start(pending_model))

    def _on_rollout_start(self) -> None:  # except with engine.overlap, all updates of the steps so far are done
        self._record_if_played()
        if self.model.num_timesteps >= self._next:
            self._evaluate_now()
            self._record_if_played()

    def _on_training_end(self) -> None:
        if self.model.num_timesteps >= self._next:
            self._evaluate_now()
        self.record_pending()

    def _on_step(self) -> bool:
        return True

    def _evaluate_now(self) -> None:
        self.record_pending()
        self.evaluate()
        self._next += self._freq * (1 + (self.model.num_timesteps - self._next) // self._freq)

    def evaluate(self) -> None:
        """Start to evaluate the current model.

        :raises EnvironmentFault: training diverged, that is, a weight of the policy is not finite.
        """
        if not all_finite(self.model):
            raise EnvironmentFault(f"training diverged before step {self.model.num_timesteps:,}.")
        row = {
            "timesteps": self.model.num_timesteps,
            "updates": self.model._n_updates,
            "wall_seconds": round(self.elapsed, 3),
        }
        logged = {
            TIMESTEPS: self.model.num_timesteps,
            "env/restarts": self.training_env.total_restarts,  # type: ignore[attr-defined]
            "replay_buffer/nbytes": self.model.replay_buffer.nbytes,  # type: ignore[attr-defined]
        }
        model = self._snapshot()
        self.pending = PendingEvaluation(row, logged, model, self._start(model))

    def _record_if_played(self) -> None:
        if self.pending is not None and (self._waits or self.pending.played.done()):
            self.record_pending()

    def record_pending(self) -> None:
        """Wait for the evaluation in progress, if any, and record it.

        :raises EnvironmentFault: the environment failed in the evaluation.
        :raises KeyboardInterrupt: a stop was requested; the evaluation stays pending.
        """
        if self.pending is None:
            return
        values = {**summarize(self.pending.played.episodes()), **self.pending.row}
        evaluated, self.pending = self.pending, None
        row = {name: values[name] for name in COLUMNS}
        self.rows.append(row)
        self._log(row, evaluated.logged)
        is_best = self.best is None or _rank(row) >= _rank(self.best)
        if is_best:
            self.best = row
        self._on_result(self.rows, evaluated.model, is_best)

    def _log(self, row: dict[str, Any], others: dict[str, Any]) -> None:
        """Log a row on its own: what the logger has collected since belongs to a later step."""
        values = others | {f"eval/{each.name}": row[each.name] for each in METRICS if row[each.name] is not None}
        excluded: dict[str, Any] = dict.fromkeys(values)
        for writer in self.logger.output_formats:
            if isinstance(writer, KVWriter):
                writer.write(values, excluded, row["timesteps"])


def all_finite(model: BaseAlgorithm) -> bool:
    """Return whether every weight and statistic of the model's policy is finite; not so after training diverged."""
    return all(bool(th.isfinite(weights).all()) for weights in model.policy.state_dict().values())


def _rank(row: dict[str, Any]) -> tuple[float, float]:
    return row["success_rate"], row["mean_reward"]


def _require_numbers(*rows: dict[str, Any]) -> None:
    if not all(value is None or isinstance(value, int | float) for row in rows for value in row.values()):
        raise ValueError("an evaluation has a value that is not a number")
