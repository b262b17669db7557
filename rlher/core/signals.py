"""Ctrl-C and SIGTERM: a run ends after the step it is in, so that what it leaves is whole."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stop:
    """Whether the run was asked to stop. A second Ctrl-C does not wait for the step's end."""

    def __init__(self) -> None:
        self.requested = False
        self.orderly = False
        """Whether it did stop where it may, and not in the middle of something."""

    def check(self) -> None:
        """Stop here if that was asked for.

        :raises KeyboardInterrupt: it was.
        """
        if self.requested:
            self.orderly = True
            raise KeyboardInterrupt

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take note of SIGINT and SIGTERM, what a batch system sends before it kills, within the block."""
        heard = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._note) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: Any) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        if number == signal.SIGINT:
            print("\nrlher: stopping after this step; Ctrl-C again stops at once", file=sys.stderr)


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM stop what runs in the block at once, as Ctrl-C does."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
