"""Progress of a sweep on stderr: a live table on a terminal, else a line per evaluation and per finished run."""

import sys
import time
from collections import Counter
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from rlher.core.console import escape_control, format_seconds
from rlher.tuning.live_table import LiveTable
from rlher.tuning.sweep_run import State, SweepRun

COLUMNS = ("run", "state", "steps", "success", "return")
SHOWN = (State.RUNNING, State.STOPPED, State.FAILED, State.FINISHED)
"""States of the runs in the table, the first on top; waiting runs are counted only."""


class SweepProgress(LiveTable):
    """Context manager that shows how far the runs of a sweep are."""

    def __init__(self, runs: Sequence[SweepRun], enabled: bool) -> None:
        super().__init__(enabled)
        self._runs = runs
        agents = {f"{run.config.algo.name} on {run.config.env.name or run.config.env.id}" for run in runs}
        self._title = agents.pop() if len(agents) == 1 else "sweep"
        self._printed: dict[str, tuple[str, ...]] = {run.name: self._cells(run) for run in runs}
        self._start_time, self._steps_at_start = time.monotonic(), self._steps()

    def print_lines(self) -> None:
        """Print a line for each run with a new evaluation or another state."""
        for run in self._runs:
            cells = self._cells(run)
            if cells != self._printed[run.name] and (run.state is not State.RUNNING or cells[2] != "0"):
                self._printed[run.name] = cells
                _, state, steps, success, mean_reward = cells
                line = f"{run.name} {state}  {steps} steps  success {success}  return {mean_reward}{self._time_left()}"
                print(escape_control(f"{run.name} failed: {run.reason}" if run.reason else line), file=sys.stderr)

    def table(self) -> Table:
        """Return the runs that were started, the running ones first."""
        states = Counter(run.state.value for run in self._runs)
        counts = ", ".join(f"{states[state.value]} {state.value}" for state in State if states[state.value])
        title = f"{self._title}: {counts} of {len(self._runs)}{self._time_left()}"
        table = Table(title=escape(escape_control(title)), title_justify="left")
        for column in COLUMNS:
            table.add_column(column)
        for run in sorted(self._runs, key=lambda run: SHOWN.index(run.state) if run.state in SHOWN else len(SHOWN)):
            if run.state in SHOWN:
                table.add_row(*(escape(escape_control(cell)) for cell in self._cells(run)))
        return table

    def _cells(self, run: SweepRun) -> tuple[str, ...]:
        last = run.last_evaluation()
        if not last.keys() >= {"success_rate", "mean_reward"}:
            return run.name, run.state.value, "0", "–", "–"
        return (
            run.name,
            run.state.value,
            f"{last['timesteps']:,.0f}",
            f"{last['success_rate']:.1%}",
            f"{last['mean_reward']:.2f}",
        )

    def _steps(self) -> float:
        return sum(run.last_evaluation().get("timesteps", 0) for run in self._runs)

    def _time_left(self) -> str:
        """Return the time left, estimated from the steps since this command started."""
        steps = self._steps()
        total = sum(run.config.total_timesteps for run in self._runs if run.state is not State.FAILED)
        if steps <= self._steps_at_start or steps >= total:
            return ""
        seconds_per_step = (time.monotonic() - self._start_time) / (steps - self._steps_at_start)
        return f"  ~{format_seconds(seconds_per_step * (total - steps))} left"
