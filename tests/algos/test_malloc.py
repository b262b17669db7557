"""Freed memory stays in the process, so that repeated allocations cause few page faults."""

import ctypes
import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from rlher.algos.malloc import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
for _ in range(40):
    arrays = [np.ones(2**20) for _ in range(6)]  # 8 MB each
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def page_faults(mode: str, **variables: str) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | variables
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode], env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_keep_freed_memory_avoids_page_faults_unless_malloc_is_configured() -> None:
    default, kept = page_faults("default"), page_faults("keep")
    assert kept < default / 3
    assert page_faults("keep", MALLOC_ARENA_MAX="4") > default / 2
