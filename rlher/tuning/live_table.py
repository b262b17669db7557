"""A table on a terminal that is redrawn in place; elsewhere its owner prints lines."""

import sys

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rlher.core.console import can_redraw


class LiveTable:
    """Context manager that shows a table on stderr while its block runs, if stderr is a terminal.

    :param enabled: show anything at all.
    """

    def __init__(self, enabled: bool) -> None:
        self._live = (
            Live(console=Console(stderr=True), auto_refresh=False) if enabled and can_redraw(sys.stderr) else None
        )
        self.prints_lines = enabled and self._live is None
        """Whether to print lines instead of the table."""

    def __enter__(self) -> "LiveTable":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def update(self) -> None:
        """Redraw the table, or print a line for each thing that is new."""
        if self._live:
            self._live.update(self.table(), refresh=True)
        elif self.prints_lines:
            self.print_lines()

    def table(self) -> Table:
        """Return the table as it is now."""
        raise NotImplementedError

    def print_lines(self) -> None:
        """Print a line on stderr for each thing that is new since the last call."""
        raise NotImplementedError
