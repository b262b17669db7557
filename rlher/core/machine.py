"""The processor cores and the memory that this process may use, within the limits of containers and batch jobs."""

import math
import os
from collections.abc import Iterator
from pathlib import Path


def available_cores() -> int:
    """Return the cores that this process may use: by affinity, ``OMP_NUM_THREADS`` and limits of its control groups."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS", "")
    limit = [int(threads)] if threads.isdecimal() else []
    return max(min([affinity, *limit, *map(math.ceil, cpu_quotas())]), 1)


def cpu_quotas(root: Path = Path("/")) -> Iterator[float]:
    """Yield the cores that each control group of this process, and each group above it, may use.

    :param root: where ``proc`` and ``sys`` are mounted.
    """
    for group in _control_groups("cpu", root):
        words = [*_words(group, "cpu.max"), *_words(group, "cpu.cfs_quota_us", "cpu.cfs_period_us")]
        if len(words) == 2 and all(word.isdigit() for word in words):  # "max" and -1: no limit
            yield int(words[0]) / int(words[1])


def memory_left(root: Path = Path("/")) -> Iterator[int]:
    """Yield the bytes that each control group of this process, and each group above it, leaves.

    Cached files count as available, because the kernel frees them on demand.

    :param root: where ``proc`` and ``sys`` are mounted.
    """
    for group in _control_groups("memory", root):
        files = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
        words = [*_words(group, *files[0]), *_words(group, *files[1])]
        if len(words) == 2 and all(word.isdigit() for word in words):
            stat = _words(group, "memory.stat")
            counts = dict(zip(stat[::2], stat[1::2], strict=True))
            # The second version of control groups counts the groups below, the first does so in "total_" entries.
            prefix = "total_" if "total_inactive_file" in counts else ""
            cached = sum(int(counts.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
            yield int(words[0]) - int(words[1]) + cached


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folder of each control group of this process, and of each group above it."""
    mount = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "" or controller in controllers.split(","):  # of version 2, or 1
            top = mount / controller if controllers else mount
            group = top / path.strip("/")
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


def _words(group: Path, *names: str) -> list[str]:
    return [word for name in names for line in _lines(group / name) for word in line.split()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
