"""The CPU, and its cores that this process may use."""

import os
from pathlib import Path


def available_cores() -> int:
    """Return the cores that this process may use, by its affinity and ``OMP_NUM_THREADS``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
        cores = min(cores, int(threads))
    return max(cores, 1)


def cpu_info() -> dict[str, str]:
    """Return Linux's description of a CPU core, such as ``vendor_id`` and ``flags``; empty on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
