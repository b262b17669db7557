"""This computer: its CPU, the cores that this process may use, and whether it has a display."""

import os
import sys
from pathlib import Path


def available_cores() -> int:
    """Return the cores that this process may use, by its affinity and ``OMP_NUM_THREADS``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
        cores = min(cores, int(threads))
    return max(cores, 1)


def has_display() -> bool:
    """Return whether a window can be opened."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def cpu_info() -> dict[str, str]:
    """Return Linux's description of a CPU core, such as ``vendor_id`` and ``flags``; empty on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
