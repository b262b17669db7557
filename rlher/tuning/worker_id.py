"""Ids of worker processes, by which others on the same machine see whether the worker of a trial is alive."""

import os
import re
import socket
from pathlib import Path


def worker_id(pid: int | None = None) -> str:
    """Return ``host:pid:start`` of a process; the start time tells processes apart that had the same pid.

    :param pid: None: this process.
    """
    pid = os.getpid() if pid is None else pid
    return f"{socket.gethostname()}:{pid}:{_start_time(pid)}"


def is_dead_here(worker: str) -> bool:
    """Return whether a worker ran on this machine and is dead; an id that :func:`worker_id` cannot return counts so."""
    parts = re.fullmatch(r"(.+):([0-9]{1,9}):(\w+)", str(worker))
    return parts is None or (parts[1] == socket.gethostname() and _start_time(int(parts[2])) != parts[3])


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None if it is dead."""
    try:
        # proc(5): after the name in brackets come the state (3rd field), 18 more, and the start time (22nd).
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else rest[18]
