"""Progress of a study on stderr: a live table on a terminal, else one line per finished trial."""

import sys
import time
from collections import Counter
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from rich.markup import escape
from rich.table import Table

from rlher.core.console import escape_control, format_seconds
from rlher.evaluation.metrics import TARGET_SUCCESS
from rlher.tuning.live_table import LiveTable
from rlher.tuning.objective import BASELINE_NUMBER, RERUN_SEEDS
from rlher.tuning.scoring import format_steps, has_score, score_of
from rlher.tuning.study import counted_trials
from rlher.tuning.worker import REASON

COLUMNS = ("success", f"{TARGET_SUCCESS}% at", "return")
MAX_BEST = 5
STATES = {
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "queued",
}


class StudyProgress(LiveTable):
    """Context manager that shows how far a study is.

    :param total: number of trials at which the study is complete.
    :param runs_per_trial: training runs of a trial.
    :param runs_after: training runs that follow the study, for the estimate of the time left.
    """

    def __init__(
        self, study: Study, title: str, total: int, enabled: bool, runs_per_trial: int = 1, runs_after: int = 0
    ) -> None:
        super().__init__(enabled)
        self._study, self._title, self._total = study, title, total
        self._trials_after = runs_after / runs_per_trial
        self._printed = {trial.number for trial in counted_trials(study) if trial.state.is_finished()}
        self._start_time, self._done_at_start = time.monotonic(), len(self._printed)

    def print_lines(self) -> None:
        """Print a line for each newly finished trial."""
        trials = counted_trials(self._study)
        for trial in trials:
            if trial.state.is_finished() and trial.number not in self._printed:
                self._printed.add(trial.number)
                line = f"{len(self._printed):>4}/{self._total}  {describe(trial)}{self._time_left(trials)}"
                print(escape_control(line), file=sys.stderr)

    def table(self) -> Table:
        """Return the best and the running trials."""
        trials = counted_trials(self._study)
        states = Counter(STATES[trial.state] for trial in trials)
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        table = Table(
            title=escape(f"{self._title}: {counts} of {self._total}{self._time_left(trials)}"), title_justify="left"
        )
        for column in ("trial", "state", *COLUMNS, "parameters"):
            table.add_column(column)
        completed = [trial for trial in trials if trial.state is TrialState.COMPLETE]
        best = sorted(completed, key=lambda trial: trial.values[0], reverse=True)[:MAX_BEST]
        for trial in [*best, *(trial for trial in trials if trial.state is TrialState.RUNNING)]:
            cells = [trial_name(trial), STATES[trial.state], *_cells(trial), format_parameters(trial)]
            table.add_row(*(escape(escape_control(cell)) for cell in cells))
        return table

    def _time_left(self, trials: list[FrozenTrial]) -> str:
        """Return the time left, estimated from the trials that finished since this command started."""
        done = sum(trial.state.is_finished() for trial in trials)
        trials_left = max(self._total - done, 0) + self._trials_after
        if done <= self._done_at_start or not trials_left:
            return ""
        seconds_per_trial = (time.monotonic() - self._start_time) / (done - self._done_at_start)
        return f"  ~{format_seconds(seconds_per_trial * trials_left)} left"


def describe(trial: FrozenTrial) -> str:
    """Return one line about a finished trial."""
    if trial.state is TrialState.FAIL:
        return f"{trial_name(trial)} failed: {failure_reason(trial)}"
    values = "  ".join(f"{name} {value}" for name, value in zip(COLUMNS, _cells(trial), strict=True))
    return f"{trial_name(trial)} {STATES[trial.state]}  {values}  {format_parameters(trial)}"


def trial_name(trial: FrozenTrial) -> str:
    """Return ``"trial 4"``; for a re-run the candidate that is trained again."""
    candidate = _parameters(trial).get("candidate")
    if candidate is None:
        return f"trial {trial.number}"
    return "re-run of the baseline" if candidate == BASELINE_NUMBER else f"re-run of trial {candidate}"


def failure_reason(trial: FrozenTrial) -> str:
    """Return why a trial failed."""
    return str(trial.user_attrs.get(REASON, "its workers died"))  # another program may have stored anything


def format_parameters(trial: FrozenTrial) -> str:
    """Return a trial's parameters, each under the last part of its key; for a re-run its seed."""
    parameters = _parameters(trial)
    if "candidate" in parameters:
        return f"seed={RERUN_SEEDS + parameters['seed']}"
    parts = []
    for key, value in parameters.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        parts.append(f"{key.rpartition('.')[2]}={text}")
    return " ".join(parts)


def _parameters(trial: FrozenTrial) -> dict[str, Any]:
    """Return a trial's parameters; those of a queued trial are stored one by one while it starts."""
    return {**trial.system_attrs.get("fixed_params", {}), **trial.params}


def _cells(trial: FrozenTrial) -> list[str]:
    """Return the values of :data:`COLUMNS`; "–" until the worker has stored the whole score."""
    if not has_score(trial):
        reported = list(trial.intermediate_values.values())
        return [f"{reported[-1]:.0%} now" if reported else "–", "–", "–"]
    score = score_of(trial)
    return [f"{score.success:.1%}", format_steps(score.steps, score.reached), f"{score.mean_reward:.2f}"]
