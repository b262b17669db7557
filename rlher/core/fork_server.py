"""The server from which a process forks its workers: it has imported what they need, so that each starts at once."""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Sequence
from multiprocessing import forkserver, resource_tracker
from typing import Any

from rlher.core.errors import UserError

RUN_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that a terminal or a batch system sends to every process of a run."""


SAFE_PATH, SET_HERE = "PYTHONSAFEPATH", "rlher"
"""Environment variable that keeps the current folder out of ``sys.path`` (from Python 3.11), and our value of it."""


def start(modules: Sequence[str]) -> None:
    """Start the server if this process has none; it imports the modules while the caller goes on.

    :data:`RUN_SIGNALS` are blocked in it and, at first, in its workers. They reach every process of a run; without the
    server, the exit status of its workers would be lost. Python would put the current folder first in its ``sys.path``,
    where any file could take the place of a module that it imports.
    """
    multiprocessing.set_forkserver_preload(list(modules))
    safe_path = os.environ.setdefault(SAFE_PATH, SET_HERE)
    resource_tracker.ensure_running()  # otherwise it is started below, which unblocks the signals
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, RUN_SIGNALS)
    try:
        forkserver.ensure_running()
    except OSError as error:
        if "AF_UNIX" not in str(error):
            raise
        folder = tempfile.gettempdir()
        raise UserError(f"the path of temporary files is too long for sockets: {folder}; set TMPDIR=/tmp.") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
        if safe_path == SET_HERE:
            os.environ.pop(SAFE_PATH, None)


def leave_server() -> None:
    """Undo in a worker what :func:`start` set for the server: blocked signals, and the safe path."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, RUN_SIGNALS)
    if os.environ.get(SAFE_PATH) == SET_HERE:
        del os.environ[SAFE_PATH]


def context() -> Any:
    """Return the ``multiprocessing`` context of worker processes: a fork of a process that uses torch may hang."""
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
