"""Standard streams of the program: a log on a full disk, or a terminal that is closed, does not end a run."""

import contextlib
import os
import sys
from typing import Any, TextIO


class LenientStream:
    """A text stream that drops what it cannot write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, as far as possible."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is buffered, as far as possible."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare_streams() -> None:
    """Make stderr lenient, let stdout print any character, and reopen closed streams.

    Otherwise the next file that is opened would take the place of a closed stream. stdout still raises if it cannot be
    written, because it has the result of a command.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDONLY)  # so that writing to it raises
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stderr = LenientStream(sys.stderr)
