"""Freed memory is kept: the kernel is not asked for the same pages again and again."""

import ctypes
import os
import subprocess
import sys

import pytest

WORK = """
import resource, sys
import numpy as np
from rlher.algos.heap import keep_freed
if sys.argv[1] == "keep":
    keep_freed()
for _ in range(40):
    arrays = [np.ones(2**20) for _ in range(6)]  # 8 MB each
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def faults(how: str, **more: str) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | more
    done = subprocess.run(
        [sys.executable, "-c", WORK, how], env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_freed_memory_is_kept() -> None:
    plain, kept = faults("plain"), faults("keep")
    assert kept < plain / 3
    assert faults("keep", MALLOC_ARENA_MAX="4") > plain / 2, "who has set something is left alone"
