"""Keeping what native libraries print out of our results."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def native_stdout_to_stderr() -> Iterator[None]:
    """Send what C code prints to stdout to stderr instead: PyBullet announces its arguments there, amid our JSON."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        libc.fflush(None)  # what C still holds in its buffer would come out later, on the restored stdout
        os.dup2(kept, 1)
        os.close(kept)
