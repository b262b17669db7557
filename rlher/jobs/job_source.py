"""Where jobs come from: the interface of a sweep and of a search to the pool and the progress table."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol


@dataclass
class Job:
    """A call of a function, and how to end it; no effect until it has a process or a task.

    :param owner: the run or trial, passed on to :meth:`JobSource.on_end`.
    :param function: it can be pickled.
    :param log: file of the machine that runs the job, to which its output is appended.
    :param interrupt: stops it as Ctrl-C does; it may be called again.
    :param kill: ends it at once.
    """

    owner: Any
    function: Callable[[], None]
    log: Path
    interrupt: Callable[[], None] = lambda: None
    kill: Callable[[], None] = lambda: None


class ProgressRow(NamedTuple):
    """A run or a trial.

    :param cells: cells of the columns after name and state.
    :param in_table: whether the row is shown in the table on a terminal.
    :param is_printed: whether it is printed where there is no table, each time that it changes.
    :param progress: share of its work that is done, from which the time left is estimated.
    :param reason: why it failed.
    """

    name: str
    state: str
    cells: tuple[str, ...]
    in_table: bool
    is_printed: bool
    progress: float
    reason: str = ""


class JobSource(Protocol):
    """Supplies jobs and the rows of their progress table.

    :ivar columns: headings of the table, the first two of name and state.
    :ivar total: number of rows at the end.
    """

    title: str
    columns: Sequence[str]
    total: int

    def rows(self) -> list[ProgressRow]:
        """Return the rows of the progress table as they are now."""

    def next_jobs(self, free: int) -> Iterable[Job]:
        """Return at most ``free`` jobs to start now; called about once a second."""

    def on_end(self, owner: Any, error: BaseException | None) -> None:
        """Record the end of a job.

        :param error: what the function raised; WorkerLost if its worker died.
        """

    def on_interrupt(self) -> None:
        """Record that the running jobs were stopped."""

    def is_complete(self) -> bool:
        """Return whether there will be no more jobs; called while none is running."""
