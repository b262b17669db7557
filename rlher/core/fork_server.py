"""The server from which a process forks its workers: it has imported what they need, so that each starts at once."""

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing import forkserver, resource_tracker
from typing import Any

RUN_SIGNALS = {signal.SIGINT, signal.SIGTERM}
"""Signals that a terminal or a batch system sends to every process of a run."""


def start(modules: Sequence[str]) -> None:
    """Start the server if this process has none; it imports the modules while the caller goes on.

    SIGINT and SIGTERM are blocked in it and, at first, in its workers. Both signals reach every process of a run;
    without the server, the exit status of its workers would be lost.
    """
    multiprocessing.set_forkserver_preload(list(modules))
    resource_tracker.ensure_running()  # otherwise the server starts it, which unblocks the signals
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, RUN_SIGNALS)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)


def context() -> Any:
    """Return the ``multiprocessing`` context of worker processes: a fork of a process that uses torch may hang."""
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
