"""Show the progress of runs or trials on stderr: a redrawn table on a terminal, printed lines elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from rlher.core.console import can_redraw, escape_control, format_seconds, print_note
from rlher.jobs.job_source import JobSource, ProgressRow


class ProgressTable:
    """Context manager that shows the rows of jobs while its block runs.

    :param enabled: whether to show anything.
    """

    def __init__(self, jobs: JobSource, enabled: bool) -> None:
        self._jobs = jobs
        self._enabled = enabled
        console = Console(stderr=True)
        self._live = Live(console=console, auto_refresh=False) if enabled and can_redraw(sys.stderr) else None
        at_start = jobs.rows()
        self._printed = set(self._lines(at_start))
        self._start_time = time.monotonic()
        self._done_at_start = sum(row.progress for row in at_start)

    def __enter__(self) -> "ProgressTable":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def update(self) -> None:
        """Redraw the table, or print the lines that have changed."""
        if not self._enabled:
            return
        rows = self._jobs.rows()
        if self._live:
            self._live.update(self._table(rows), refresh=True)
            return
        done = sum(row.progress >= 1 for row in rows)
        for line in self._lines(rows):
            if line not in self._printed:
                self._printed.add(line)
                print_note(f"{done:>4}/{self._jobs.total}  {line}{self._time_left(rows)}")

    def _lines(self, rows: list[ProgressRow]) -> Iterator[str]:
        for row in rows:
            values = (f"{heading} {cell}" for heading, cell in zip(self._jobs.columns[2:], row.cells, strict=True))
            if row.is_printed:
                yield f"{row.name} {row.state}" + (f": {row.reason}" if row.reason else f"  {'  '.join(values)}")

    def _table(self, rows: list[ProgressRow]) -> Table:
        counts = ", ".join(f"{number} {state}" for state, number in Counter(row.state for row in rows).items())
        title = f"{self._jobs.title}: {counts} of {self._jobs.total}{self._time_left(rows)}"
        table = Table(*self._jobs.columns, title=escape(escape_control(title)), title_justify="left")
        for row in rows:
            if row.in_table:
                table.add_row(*(escape(escape_control(cell)) for cell in (row.name, row.state, *row.cells)))
        return table

    def _time_left(self, rows: list[ProgressRow]) -> str:
        """Return the time left, estimated from the work done since this command started."""
        done = sum(row.progress for row in rows)
        if done <= self._done_at_start or done >= self._jobs.total:
            return ""
        seconds = (time.monotonic() - self._start_time) / (done - self._done_at_start)
        return f"  ~{format_seconds(seconds * (self._jobs.total - done))} left"
