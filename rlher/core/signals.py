"""Handle Ctrl-C, SIGTERM and SIGHUP. A terminal or a batch system sends them to every process of a run.

Each kind of process reacts in its own way:

- A process that trains ends after its step, so that its files are complete: :class:`InterruptRequest`.
- A sweep or a search stops its jobs, and a job that gets SIGTERM ends: :func:`interrupt_on_stop_signals`.
- A worker does nothing, because it may have to answer once more: :func:`leave_signals_to_main_process`.
- The fork server gets no signal, because it must outlive its workers to collect their exit status:
  :func:`blocked_stop_signals`.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C or SIGTERM: 128 + SIGINT, as in shells."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or a batch system sends to every process of a run."""


class InterruptRequest:
    """Remembers that the user or the batch system asked the run to stop. A second Ctrl-C stops the run at once.

    :param stops_at_once: raise at the first signal. Use this if nothing has to be saved.
    """

    def __init__(self, stops_at_once: bool = False) -> None:
        self.requested = False
        self._stops_at_once = stops_at_once

    @contextmanager
    def catch_signals(self) -> Iterator[None]:
        """Handle SIGINT, SIGTERM and SIGHUP within the block, except ignored signals (nohup ignores SIGHUP).

        Batch systems send SIGTERM before they kill a job, terminals SIGHUP when they are closed.
        """
        in_main_thread = threading.current_thread() is threading.main_thread()  # only the main thread can set handlers
        not_ignored = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        caught = not_ignored if in_main_thread else []
        before = {number: signal.signal(number, self._handle) for number in caught}
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)

    def stop_at_once(self) -> None:
        """Stop at once from now on, because everything is saved.

        :raises KeyboardInterrupt: a stop was requested before.
        """
        self._stops_at_once = True
        if self.requested:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: Any) -> None:
        if self.requested:  # a closed terminal sends SIGHUP and SIGTERM, which are one request
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        self.requested = True
        if self._stops_at_once:
            raise KeyboardInterrupt
        if number == signal.SIGINT:
            print("\nrlher: stopping, as soon as results are saved; another Ctrl-C stops at once", file=sys.stderr)


def interrupt_on_stop_signals() -> AbstractContextManager[None]:
    """Raise KeyboardInterrupt on the first SIGTERM or SIGHUP within a ``with`` block, and on each Ctrl-C."""
    return InterruptRequest(stops_at_once=True).catch_signals()


def leave_signals_to_main_process() -> None:
    """Let this process, a worker, do nothing on the signals of a run.

    An empty handler receives the signals. If this process blocked or ignored them, a simulator that it starts would
    inherit that.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextmanager
def blocked_stop_signals() -> Iterator[None]:
    """Block the signals of a run within the ``with`` block, so that a process started there inherits the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
