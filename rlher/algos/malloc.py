"""Keeping freed memory in the process for the next update.

An update allocates and frees megabytes dozens of times. By default glibc returns them to the kernel, which fills every
page with zeros before it returns it. Measured: 5 % of an update of three layers of 512 units. If this module is
removed, only that time is lost.
"""

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameter numbers in glibc's malloc.h."""

TRIM_THRESHOLD = 512 * 2**20
"""Freed bytes that the process may keep."""

MMAP_THRESHOLD = 32 * 2**20
"""Allocations up to this size are kept when freed; the maximum that glibc accepts."""


def keep_freed_memory() -> None:
    """Set glibc's ``mallopt`` so that the process keeps up to half a gigabyte of freed memory.

    The setting holds for the whole process. It does nothing with another C library, or if the user configures malloc
    with ``MALLOC_*`` environment variables.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD)
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
