"""The interface through which a sweep or a search supplies jobs to the pool and rows to the progress table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Job(NamedTuple):
    """A call of a function in a process of its own.

    :param item: the run or trial, passed on to :meth:`JobSource.on_end`.
    :param function: picklable function.
    :param log: file to which the output is appended, on the machine that runs the job.
    """

    item: Any
    function: Callable[[], None]
    log: Path


class ProgressRow(NamedTuple):
    """A row of the progress table: a run or a trial.

    :param cells: cells of the columns after name and state.
    :param in_table: whether the row is shown in the table on a terminal.
    :param is_printed: whether each change of the row is printed where there is no table.
    :param progress: share of the work that is done. The time left is estimated from it.
    :param reason: why the run or trial failed.
    """

    name: str
    state: str
    cells: tuple[str, ...]
    in_table: bool
    is_printed: bool
    progress: float
    reason: str = ""


class JobSource(ABC):
    """Supplies jobs and the rows of their progress table.

    :ivar columns: headings of the table. The first two columns are name and state.
    :ivar total: number of rows at the end.
    """

    title: str
    columns: Sequence[str]
    total: int

    @abstractmethod
    def rows(self) -> list[ProgressRow]:
        """Return the rows of the progress table as they are now."""

    @abstractmethod
    def next_jobs(self, max_jobs: int) -> Iterable[Job]:
        """Return at most ``max_jobs`` jobs to start now. The pool calls this about once a second."""

    @abstractmethod
    def on_end(self, item: Any, error: BaseException | None) -> None:
        """Record the end of a job.

        :param error: what the function raised, or WorkerLost if the worker died.
        """

    @abstractmethod
    def on_interrupt(self) -> None:
        """Record that the running jobs were stopped."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Return whether there will be no more jobs. The pool calls this while no job is running."""
