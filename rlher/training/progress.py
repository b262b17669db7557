"""The progress of training on stderr."""

import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.core.console import can_redraw, print_note
from rlher.envs.episode_info import OBJECT_MOVED
from rlher.training.diagnostics import episode_share
from rlher.training.evaluator import Evaluator

BAR_INTERVAL = 0.5
"""Seconds between two updates of the bar."""


class TrainingProgress:
    """Context manager that shows steps, speed, time left, training success and the last evaluation.

    If stderr is no terminal, print a line after each evaluation.

    :param model: model that is trained.
    :param enabled: show anything at all.
    """

    def __init__(self, model: OffPolicyAlgorithm, total: int, evaluator: Evaluator, enabled: bool) -> None:
        self._model = model
        self._total = total
        self._evaluator = evaluator
        has_bar = enabled and can_redraw(sys.stderr)
        self._has_lines = enabled and not has_bar
        self._bar = Progress(
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]:.0f}/s"),
            TimeRemainingColumn(),
            TextColumn("training {task.fields[training]}  eval {task.fields[evaluated]}"),
            console=Console(stderr=True),
            disable=not has_bar,
        )
        self._task = self._bar.add_task("", total=total, unit="steps", speed=0, training="–", evaluated="–")
        self._shown_evaluations = len(evaluator.rows)
        self._bar_time = time.monotonic()

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
        if now - self._bar_time > BAR_INTERVAL:
            self._bar_time = now
            speed = self._bar.tasks[0].speed or 0  # of the last seconds
            steps = self._model.num_timesteps
            self._bar.update(self._task, completed=steps, speed=speed, training=self._training_success())
        self._show_new_evaluation()

    def show_pretraining(self, done: int, total: int) -> None:
        """Show how many of the updates before the first step are done."""
        self._bar.update(self._task, completed=done, total=total, unit="pretraining updates")
        if done == total:
            self._bar.reset(self._task, total=self._total, unit="steps")

    def _show_new_evaluation(self) -> None:
        rows = self._evaluator.rows
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
        print_note("  ".join(parts))

    def _training_success(self) -> str:
        """Return the success rate of the last 100 training episodes."""
        outcomes = self._model.ep_success_buffer
        return f"{np.mean(outcomes):.0%}" if outcomes else "–"
