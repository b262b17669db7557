"""Signals that end a run."""

import os
import signal

import pytest

from rlher.core.signals import interrupt_on_stop_signals, signal_name


def test_only_the_first_stop_signal_interrupts() -> None:
    """A closed terminal sends SIGHUP, and its command SIGTERM; the second must not interrupt the end of the runs."""
    with interrupt_on_stop_signals():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (40, "signal 40")])
def test_a_signal_without_a_name_has_its_number(number: int, name: str) -> None:
    assert signal_name(number) == name
