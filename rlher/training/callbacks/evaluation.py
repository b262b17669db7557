"""What happens beside the updates of a training run: evaluations, the progress bar, a stop for diverged weights."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
import torch as th
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from rlher.core.errors import EnvironmentFault
from rlher.evaluation.metrics import COLUMNS, METRICS, Summary


class Diverged(EnvironmentFault):
    """Training went to infinity; told like a fault of the environment, because what was learnt before is kept."""


class Stopped(Exception):
    """Raised by who watches the evaluations, to end a run that is not worth its steps."""


class Evaluate(BaseCallback):
    """Evaluate every ``freq`` steps, keep the rows of ``evaluations.csv``, and the best model.

    The best model is the one with the highest success rate; ties go to the higher return.

    :param evaluate: plays the evaluation episodes with the model as it is.
    :param freq: environment steps between two evaluations.
    :param on_row: called with all rows after each evaluation.
    :param on_best: called when the model is the best so far.
    """

    def __init__(
        self,
        evaluate: Callable[[], Summary],
        freq: int,
        on_row: Callable[[list[dict[str, Any]]], None],
        on_best: Callable[[], None],
    ) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None
        self._evaluate, self._freq, self._on_row, self._on_best = evaluate, freq, on_row, on_best
        self._next = freq
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds of training so far, those of a run that was resumed included."""
        return time.monotonic() - self._started

    def state(self) -> dict[str, Any]:
        """Return the history, as JSON values."""
        return {"rows": self.rows, "best": self.best, "next": self._next, "elapsed": self.elapsed}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state` returned.

        :raises ValueError, KeyError, TypeError: it is something else.
        """
        self.rows = [{name: row[name] for name in COLUMNS} for row in state["rows"]]
        if not all(value is None or isinstance(value, int | float) for row in self.rows for value in row.values()):
            raise ValueError("an evaluation is no row of numbers")
        steps = [row["timesteps"] for row in self.rows]
        self.best = state["best"] and self.rows[steps.index(state["best"]["timesteps"])]
        self._next = int(state["next"])
        self._started = time.monotonic() - float(state["elapsed"])

    def _on_rollout_start(self) -> None:
        self._run_if_due()  # all updates of the steps so far are done

    def _on_training_end(self) -> None:
        self._run_if_due()

    def _on_step(self) -> bool:
        return True

    def _run_if_due(self) -> None:
        steps = self.model.num_timesteps
        if steps >= self._next:
            self.run()
            self._next += self._freq * (1 + (steps - self._next) // self._freq)

    def run(self) -> None:
        """Evaluate now.

        :raises Diverged: a weight of the policy is no longer finite.
        """
        if not all_finite(self.model):
            raise Diverged(f"training diverged before step {self.model.num_timesteps:,}.")
        summary = self._evaluate()
        known = {
            **summary,
            "timesteps": self.model.num_timesteps,
            "updates": self.model._n_updates,
            "wall_seconds": round(self.elapsed, 3),
        }
        row = {name: known[name] for name in COLUMNS}
        self.rows.append(row)
        for metric in METRICS:
            if row[metric.name] is not None:
                self.logger.record(f"eval/{metric.name}", row[metric.name])
        self.logger.record("env/restarts", self.training_env.all_restarts)  # type: ignore[attr-defined]
        self.logger.record("replay_buffer/nbytes", self.model.replay_buffer.nbytes)  # type: ignore[attr-defined]
        self.logger.dump(self.model.num_timesteps)
        if self._is_best(row):
            self.best = row
            self._on_best()
        self._on_row(self.rows)

    def _is_best(self, row: dict[str, Any]) -> bool:
        return self.best is None or _rank(row) > _rank(self.best)


def all_finite(model: BaseAlgorithm) -> bool:
    """Tell whether every weight of the model's policy is a finite number."""
    return all(bool(th.isfinite(weights).all()) for weights in model.policy.parameters())


def _rank(row: dict[str, Any]) -> tuple[float, float]:
    return row["success_rate"], row["mean_reward"]


SILENCE = 60.0
"""Seconds after which somebody who reads a log wants to know that it goes on."""


class ProgressBar(BaseCallback):
    """Show step, speed, time left, training success and the last evaluation on stderr.

    Where stderr is no terminal, a line per evaluation says the same, and before the first one a line how long it takes.

    :param total: steps of the run.
    :param evaluations: whose rows to show.
    :param enabled: show anything at all.
    """

    def __init__(self, total: int, evaluations: Evaluate, enabled: bool) -> None:
        super().__init__()
        self._evaluations, self._enabled = evaluations, enabled
        self._live = enabled and sys.stderr.isatty()
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]:.0f} steps/s"),
            TimeRemainingColumn(),
            TextColumn("training {task.fields[training]}  eval {task.fields[evaluated]}"),
            console=self._console,
            disable=not self._live,
        )
        self._task = self._bar.add_task("", total=total, speed=0.0, training="–", evaluated="–")
        self._seen = 0
        self._begun = self._shown = 0
        self._shown_at = time.monotonic()
        self._total, self._started, self._spoken_at = total, self._shown_at, self._shown_at

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def _on_training_start(self) -> None:
        self._begun = self._shown = self.model.num_timesteps  # not 0 in a run that is resumed
        self._seen = len(self._evaluations.rows)

    def _on_step(self) -> bool:
        now = time.monotonic()
        if self._live and now - self._shown_at > 0.5:
            speed = (self.num_timesteps - self._shown) / (now - self._shown_at)
            self._shown, self._shown_at = self.num_timesteps, now
            self._bar.update(self._task, completed=self.num_timesteps, speed=speed, training=self._training())
        if self._enabled and not self._live and not self._seen and now - self._spoken_at > SILENCE:
            self._show_speed(now)
        self._show_new()
        return True

    def _on_training_end(self) -> None:
        self._show_new()

    def _show_new(self) -> None:
        if len(self._evaluations.rows) > self._seen:
            self._seen = len(self._evaluations.rows)
            self._show_evaluation(self._evaluations.rows[-1])

    def _show_speed(self, now: float) -> None:
        speed = (self.num_timesteps - self._begun) / (now - self._started)
        minutes = (self._total - self.num_timesteps) / speed / 60
        print(
            f"{self.num_timesteps:>9,} steps  {speed:.0f} steps/s, at which {minutes:.0f} min are left", file=sys.stderr
        )
        self._spoken_at = now

    def _show_evaluation(self, row: dict[str, Any]) -> None:
        self._bar.update(self._task, evaluated=f"{row['success_rate']:.0%}")
        if self._enabled and not self._live:
            parts = [
                f"{row['timesteps']:>9,} steps",
                f"eval success {row['success_rate']:4.0%}",
                *([f"crash {row['crash_rate']:4.0%}"] if row["crash_rate"] is not None else []),
                f"return {row['mean_reward']:7.2f}",
                f"training {self._training():>4}",
                f"{row['timesteps'] / row['wall_seconds']:4.0f} steps/s",
            ]
            print("  ".join(parts), file=sys.stderr, flush=True)

    def _training(self) -> str:
        outcomes = self.model.ep_success_buffer  # of the last 100 episodes
        return f"{np.mean(outcomes):.0%}" if outcomes else "–"
