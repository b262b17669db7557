"""Progress of runs or trials on stderr: on a terminal a table that is redrawn, elsewhere lines."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from rlher.core.console import can_redraw, escape_control, format_seconds

FINISHED = ("done", "pruned", "finished", "failed", "stopped")
"""States that do not change any more."""


class Row(NamedTuple):
    """A run or a trial.

    :param cells: of the table, after name and state.
    :param line: what is printed where there is no table, each time that it changes; empty: nothing.
    :param shown: whether the row is in the table.
    """

    name: str
    state: str
    cells: Sequence[str]
    line: str
    shown: bool


class ProgressTable:
    """Context manager that shows rows while its block runs.

    :param columns: all headings, the first two of name and state.
    :param total: number of rows at the end.
    :param rows: returns the rows as they are now.
    :param work: returns how much work is done and how much there is altogether, to estimate the time left.
    :param enabled: show anything at all.
    """

    def __init__(
        self,
        title: str,
        columns: Sequence[str],
        total: int,
        rows: Callable[[], list[Row]],
        work: Callable[[], tuple[float, float]],
        enabled: bool,
    ) -> None:
        self._title, self._columns, self._total, self._rows, self._work = title, columns, total, rows, work
        on_terminal = can_redraw(sys.stderr)
        self._live = Live(console=Console(stderr=True), auto_refresh=False) if enabled and on_terminal else None
        self._prints_lines = enabled and not on_terminal
        self._printed = {row.line for row in rows()}
        self._start_time, self._done_at_start = time.monotonic(), work()[0]

    def __enter__(self) -> "ProgressTable":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def update(self) -> None:
        """Redraw the table, or print the lines that are new."""
        if self._live:
            self._live.update(self._table(), refresh=True)
        elif self._prints_lines:
            self._print_lines()

    def _print_lines(self) -> None:
        rows = self._rows()
        done = sum(row.state in FINISHED for row in rows)
        for row in rows:
            if row.line and row.line not in self._printed:
                self._printed.add(row.line)
                line = f"{done:>4}/{self._total}  {row.line}{self._time_left()}"
                print(escape_control(line), file=sys.stderr)

    def _table(self) -> Table:
        rows = self._rows()
        counts = ", ".join(f"{number} {state}" for state, number in Counter(row.state for row in rows).items())
        title = f"{self._title}: {counts} of {self._total}{self._time_left()}"
        table = Table(title=escape(escape_control(title)), title_justify="left")
        for column in self._columns:
            table.add_column(column)
        for row in rows:
            if row.shown:
                table.add_row(*(escape(escape_control(cell)) for cell in (row.name, row.state, *row.cells)))
        return table

    def _time_left(self) -> str:
        """Return the time left, estimated from the work since this command started."""
        done, total = self._work()
        if done <= self._done_at_start or done >= total:
            return ""
        seconds = (time.monotonic() - self._start_time) / (done - self._done_at_start)
        return f"  ~{format_seconds(seconds * (total - done))} left"
