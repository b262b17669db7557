"""Redirecting the output of native libraries from stdout to stderr."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def native_stdout_to_stderr() -> Iterator[None]:
    """Redirect output of C code from stdout to stderr: PyBullet prints its arguments to stdout, where our JSON goes."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        libc.fflush(None)  # otherwise C's buffer would be written to the restored stdout
        os.dup2(saved, 1)
        os.close(saved)
