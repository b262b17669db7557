"""The processor cores and the memory that this process may use, within the limits of containers and batch jobs.

Limits are read from control groups of version 2. psutil does not know them.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import psutil


def available_cores(root: Path = Path("/")) -> int:
    """Return the cores that this process may use: by affinity, ``OMP_NUM_THREADS`` and limits of its control groups.

    :param root: where ``proc`` and ``sys`` are mounted.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
        cores = min(cores, int(threads))
    for group in _control_groups(root):
        quota = _words(group / "cpu.max")
        if quota and quota[0] != "max":
            cores = min(cores, math.ceil(int(quota[0]) / int(quota[1])))
    return max(cores, 1)


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process can still allocate, within its control groups.

    :param root: where ``proc`` and ``sys`` are mounted.
    """
    free = psutil.virtual_memory().available
    for group in _control_groups(root):
        limit, used, stat = (_words(group / f"memory.{name}") for name in ("max", "current", "stat"))
        if limit and used and limit[0] != "max":
            counts = dict(zip(stat[::2], map(int, stat[1::2]), strict=True))
            cached = counts.get("active_file", 0) + counts.get("inactive_file", 0)  # the kernel frees it on demand
            free = min(free, int(limit[0]) - int(used[0]) + cached)
    return max(free, 0)


def _control_groups(root: Path) -> Iterator[Path]:
    """Yield the folder of this process's control group, and of each group above it."""
    top = root / "sys/fs/cgroup"
    for path in [word[3:] for word in _words(root / "proc/self/cgroup") if word.startswith("0::")]:
        group = top / path.strip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
