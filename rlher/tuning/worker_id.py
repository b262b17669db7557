"""Who works on a trial, so that a journal, which has no heartbeat, can tell whether it still lives."""

import os
import socket
from pathlib import Path


def worker_id(pid: int | None = None) -> str:
    """Name a process of this machine: ``host:pid:start``, the start in clock ticks, for a pid is given out again."""
    pid = os.getpid() if pid is None else pid
    return f"{socket.gethostname()}:{pid}:{_started(pid)}"


def is_gone(worker: str) -> bool:
    """Tell whether a worker was a process of this machine and is no more."""
    host, pid, started = worker.rsplit(":", 2)
    return host == socket.gethostname() and _started(int(pid)) != started


def _started(pid: int) -> str | None:
    """Return when a process began, in clock ticks since the machine did, or None where it is dead."""
    try:
        # Behind the name, which is in brackets and may hold anything: state, then eighteen more, then the start.
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else rest[18]
