"""How far a study is, on stderr: a live table, or a line per finished trial where stderr is no terminal."""

import sys
import time
from collections import Counter
from datetime import datetime, timezone
from types import TracebackType

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.live import Live
from rich.table import Table

from rlher.core.console import escape_control
from rlher.tuning.shared_study import counted
from rlher.tuning.worker import REASON

SHOWN = ("success", "90 % at", "return")
STATES = {
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "queued",
}


class Progress:
    """Shows a study when called.

    :param title: what is going on.
    :param total: trials of the study in all.
    :param enabled: show anything at all.
    """

    def __init__(self, study: Study, title: str, total: int, enabled: bool) -> None:
        self._study, self._title, self._total, self._enabled = study, title, total, enabled
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False) if enabled and sys.stderr.isatty() else None
        self._told = {trial.number for trial in counted(study) if trial.state.is_finished()}
        self._begun, self._begun_with = time.monotonic(), len(self._told)

    def __enter__(self) -> "Progress":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def __call__(self) -> None:
        """Show the study as it is now."""
        trials = counted(self._study)
        if self._live:
            self._live.update(self._table(trials), refresh=True)
        elif self._enabled:
            for trial in trials:
                if trial.state.is_finished() and trial.number not in self._told:
                    self._told.add(trial.number)
                    said = f"{len(self._told):>4}/{self._total}  {line(trial)}{self._left(trials)}"
                    print(escape_control(said), file=sys.stderr)

    def _table(self, trials: list[FrozenTrial]) -> Table:
        states = Counter(STATES[trial.state] for trial in trials)
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        table = Table(title=f"{self._title}: {counts} of {self._total}{self._left(trials)}", title_justify="left")
        for column in ("trial", "state", *SHOWN, "parameters"):
            table.add_column(column)
        done = [trial for trial in trials if trial.state is TrialState.COMPLETE]
        best = sorted(done, key=_value, reverse=True)[:5]
        for trial in [*best, *(trial for trial in trials if trial.state is TrialState.RUNNING)]:
            table.add_row(str(trial.number), STATES[trial.state], *_shown(trial), parameters(trial))
        return table

    def _left(self, trials: list[FrozenTrial]) -> str:
        """Estimate the time left from the trials done since this command began, whoever did them."""
        done = sum(trial.state.is_finished() for trial in trials)
        if done <= self._begun_with:
            return ""
        pace = (time.monotonic() - self._begun) / (done - self._begun_with)
        return f"  ~{_clock(pace * max(self._total - done, 0))} left"


def line(trial: FrozenTrial) -> str:
    """Say a finished trial in a line."""
    if trial.state is TrialState.FAIL:
        return f"trial {trial.number} failed: {reason(trial)}"
    values = "  ".join(f"{name} {value}" for name, value in zip(SHOWN, _shown(trial), strict=True))
    return f"trial {trial.number} {STATES[trial.state]}  {values}  {parameters(trial)}"


def reason(trial: FrozenTrial) -> str:
    """Say why a trial failed."""
    return trial.user_attrs.get(REASON, "its workers died")


def parameters(trial: FrozenTrial) -> str:
    """Say a trial's parameters, each by the last part of its key."""
    parts = []
    for name, value in trial.params.items():
        parts.append(
            f"{name.rpartition('.')[2]}={value:.4g}"
            if isinstance(value, float)
            else f"{name.rpartition('.')[2]}={value}"
        )
    return " ".join(parts)


def seconds(trial: FrozenTrial) -> float | None:
    """Return how long a trial took, or has taken so far."""
    if trial.datetime_start is None:
        return None
    end = trial.datetime_complete or datetime.now(timezone.utc)
    return (end.astimezone(timezone.utc) - trial.datetime_start.astimezone(timezone.utc)).total_seconds()


def _shown(trial: FrozenTrial) -> list[str]:
    if "success" not in trial.user_attrs:
        reported = list(trial.intermediate_values.values())
        return [f"{reported[-1]:.0%} now" if reported else "–", "–", "–"]
    return [
        f"{trial.user_attrs['success']:.1%}",
        f"{trial.user_attrs['steps']:,.0f}",
        f"{trial.user_attrs['mean_reward']:.2f}",
    ]


def _value(trial: FrozenTrial) -> float:
    return trial.values[0]


def _clock(left: float) -> str:
    hours, minutes = divmod(round(left / 60), 60)
    return f"{hours}:{minutes:02} h" if hours else f"{minutes} min" if left >= 60 else f"{left:.0f} s"
