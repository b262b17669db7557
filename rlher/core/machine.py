"""The processor cores that this process may use."""

import os


def available_cores() -> int:
    """Return the cores that this process may use, by its affinity and ``OMP_NUM_THREADS``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
        cores = min(cores, int(threads))
    return max(cores, 1)
