"""Signals that end a run."""

import signal

import pytest

from rlher.core.signals import interrupt_on_stop_signals


def test_only_the_first_stop_signal_interrupts() -> None:
    """A closed terminal sends SIGHUP, and its command SIGTERM; the second must not interrupt the end of the runs."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
    with interrupt_on_stop_signals():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
