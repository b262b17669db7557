"""The number of processor cores that this process may use."""

import math
import os
from collections.abc import Iterator
from pathlib import Path


def available_cores() -> int:
    """Return the cores that this process may use: by affinity, ``OMP_NUM_THREADS`` and limits of its control groups."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS", "")
    limit = [int(threads)] if threads.isdecimal() else []
    return max(min([affinity, *limit, *map(math.ceil, quotas())]), 1)


def quotas(root: Path = Path("/")) -> Iterator[float]:
    """Yield the cores that each control group of this process, and each group above it, may use.

    :param root: where ``proc`` and ``sys`` are mounted.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            mount, files = root / "sys/fs/cgroup", ["cpu.max"]
        elif "cpu" in controllers.split(","):  # version 1
            mount, files = root / "sys/fs/cgroup/cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        group = mount / path.strip("/")
        for folder in (group, *group.parents):
            words = " ".join(_read(folder / name) for name in files).split()
            if len(words) == 2 and all(word.isdigit() for word in words):  # "max" and -1: no limit
                yield int(words[0]) / int(words[1])
            if folder == mount:
                break


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
