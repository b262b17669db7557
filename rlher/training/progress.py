"""The progress of training on stderr."""

import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from rlher.core.console import can_redraw, format_seconds
from rlher.envs.success_info import OBJECT_MOVED
from rlher.training.diagnostics import episode_share
from rlher.training.evaluations import Evaluations

BAR_INTERVAL = 0.5
"""Seconds between two updates of the bar."""

LINE_INTERVAL = 60.0
"""Seconds between two lines on the speed, before the first evaluation, where there is no bar."""


class TrainingProgress:
    """Context manager that shows steps, speed, time left, training success and the last evaluation.

    If stderr is no terminal, print a line after each evaluation, and before the first one a line a minute. Lines are
    flushed, so that they can be read in a file or pipe while the run goes on.

    :param model: model that is trained.
    :param enabled: show anything at all.
    """

    def __init__(self, model: OffPolicyAlgorithm, total: int, evaluations: Evaluations, enabled: bool) -> None:
        self._model = model
        self._total = total
        self._evaluations = evaluations
        self._has_bar = enabled and can_redraw(sys.stderr)
        self._has_lines = enabled and not self._has_bar
        self._bar = Progress(
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]:.0f}/s"),
            TimeRemainingColumn(),
            TextColumn("training {task.fields[training]}  eval {task.fields[evaluated]}"),
            console=Console(stderr=True),
            disable=not self._has_bar,
        )
        self._task = self._bar.add_task("", total=total, unit="steps", speed=0, training="–", evaluated="–")
        self._shown_evaluations = len(evaluations.rows)
        self._first_step = model.num_timesteps  # not 0 in a resumed run
        self._started = self._bar_time = self._line_time = time.monotonic()

    def __enter__(self) -> "TrainingProgress":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.update(self._task, completed=self._model.num_timesteps)
        self._show_new_evaluation()
        self._bar.stop()

    def update(self) -> None:
        """Show the present state, at most a few times a second; called after each step."""
        now = time.monotonic()
        if self._has_bar and now - self._bar_time > BAR_INTERVAL:
            speed = self._bar.tasks[0].speed or 0  # of the last seconds
            success = self._training_success()
            self._bar.update(self._task, completed=self._model.num_timesteps, speed=speed, training=success)
            self._bar_time = now
        if self._has_lines and not self._shown_evaluations and now - self._line_time > LINE_INTERVAL:
            self._print_speed(now)
        self._show_new_evaluation()

    def show_pretraining(self, done: int, total: int) -> None:
        """Show how many of the updates before the first step are done."""
        now = time.monotonic()
        self._bar.update(self._task, completed=done, total=total, unit="pretraining updates")
        if self._has_lines and (done == total or now - self._line_time > LINE_INTERVAL):
            print(f"{done:>9,} of {total:,} pretraining updates", file=sys.stderr, flush=True)
            self._line_time = now
        if done == total:
            self._bar.reset(self._task, total=self._total, unit="steps")
            self._started = now

    def _print_speed(self, now: float) -> None:
        speed = (self._model.num_timesteps - self._first_step) / (now - self._started)
        left = format_seconds((self._total - self._model.num_timesteps) / max(speed, 1e-9))
        print(f"{self._model.num_timesteps:>9,} steps  {speed:.0f} steps/s, {left} left", file=sys.stderr, flush=True)
        self._line_time = now

    def _show_new_evaluation(self) -> None:
        rows = self._evaluations.rows
        if len(rows) > self._shown_evaluations:
            self._shown_evaluations = len(rows)
            self._bar.update(self._task, evaluated=f"{rows[-1]['success_rate']:.0%}")
            if self._has_lines:
                self._print_evaluation(rows[-1])

    def _print_evaluation(self, row: dict[str, Any]) -> None:
        moved = episode_share(self._model.ep_info_buffer or (), OBJECT_MOVED)
        parts = [
            f"{row['timesteps']:>9,} steps",
            f"eval success {row['success_rate']:4.0%}",
            *([f"crash {row['crash_rate']:4.0%}"] if row["crash_rate"] is not None else []),
            f"return {row['mean_reward']:7.2f}",
            f"training {self._training_success():>4}",
            *([f"object moved {moved:4.0%}"] if moved is not None and moved < 1 else []),
            f"{row['timesteps'] / max(row['wall_seconds'], 1e-3):4.0f} steps/s",
        ]
        print("  ".join(parts), file=sys.stderr, flush=True)

    def _training_success(self) -> str:
        """Return the success rate of the last 100 training episodes."""
        outcomes = self._model.ep_success_buffer
        return f"{np.mean(outcomes):.0%}" if outcomes else "–"
