"""Ctrl-C, SIGTERM and SIGHUP, which a terminal or a batch system sends to every process of a run.

Each kind of process has its own answer:

- one that trains ends after its step, so that its files are complete: :class:`InterruptRequest`;
- a sweep or a search stops its jobs, and a job that gets SIGTERM ends: :func:`interrupt_on_stop_signals`;
- a worker, which may have to answer once more, does nothing: :func:`leave_signals_to_main_process`;
- the fork server, which outlives its workers because it collects their exit status, gets none:
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
    """Remembers that the user or the batch system asked the run to stop; a second Ctrl-C stops at once.

    :param stops_at_once: raise at the first signal, because nothing has to be saved.
    """

    def __init__(self, stops_at_once: bool = False) -> None:
        self.requested = False
        self._stops_at_once = stops_at_once

    @contextmanager
    def catch_signals(self) -> Iterator[None]:
        """Handle SIGINT, SIGTERM and SIGHUP within the block, except those that are ignored, as SIGHUP with nohup.

        Batch systems send SIGTERM before they kill a job, terminals SIGHUP when they are closed.
        """
        in_main_thread = threading.current_thread() is threading.main_thread()  # Python allows no other to do this
        not_ignored = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        caught = not_ignored if in_main_thread else []
        before = {number: signal.signal(number, self._handle) for number in caught}
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)

    def stop_at_once(self) -> None:
        """From here on, where everything is saved, stop at once.

        :raises KeyboardInterrupt: it was requested before.
        """
        self._stops_at_once = True
        if self.requested:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: Any) -> None:
        if self.requested:  # a closed terminal sends SIGHUP and SIGTERM; both together are one request
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
    """Do nothing on the signals of a run in this process, a worker.

    They are neither blocked nor ignored, because a simulator started from this process would inherit that.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextmanager
def blocked_stop_signals() -> Iterator[None]:
    """Block the signals of a run within the block, for a process that is started there."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
