"""The number of processor cores that this process may use."""

import math
import os

from rlher.core.cgroups import cpu_quotas


def available_cores() -> int:
    """Return the cores that this process may use: by affinity, ``OMP_NUM_THREADS`` and limits of its control groups."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS", "")
    limit = [int(threads)] if threads.isdecimal() else []
    return max(min([affinity, *limit, *map(math.ceil, cpu_quotas())]), 1)
