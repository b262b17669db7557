"""What holds for every input: no traceback, no hang, and exit code 0, 1 or 2 with a message for 1 and 2."""

import contextlib
import io
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TIME_LIMIT = 60
"""Seconds after which an input counts as a hang."""


MARKER = "hacked"
"""Name of the file that malicious content writes if it is run as code."""


class Violation(Exception):
    """An input ended in a traceback, a hang, another exit code, an error without a message, or a changed file."""


class TimeLimitExceeded(BaseException):
    """The time limit is over; not an Exception, so that no handler in the program catches it."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeLimitExceeded in the block after this many seconds."""

    def stop(number: int, frame: Any) -> None:
        raise TimeLimitExceeded

    handler = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)


class FullStream(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def run_checked(action: Callable[[], int | None], label: str, out: io.StringIO | None = None) -> str:
    """Run an action, and return what it printed.

    :param action: returns an exit code or None, or raises SystemExit.
    :param label: names the input in the message of a violation.
    :param out: its stdout.
    :raises Violation: it ends otherwise than every input has to end.
    """
    out, err = out or io.StringIO(), io.StringIO()
    started = time.monotonic()
    try:
        with time_limit(TIME_LIMIT), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = action()
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    except TimeLimitExceeded:
        raise Violation(f"{label}: hangs") from None
    except Exception as error:
        raise Violation(f"{label}: {type(error).__name__}: {error}") from error
    if time.monotonic() - started >= TIME_LIMIT:  # an error raised while TimeLimitExceeded propagated replaced it
        raise Violation(f"{label}: hangs")
    if code not in (0, 1, 2, None):
        raise Violation(f"{label}: exit code {code}")
    if "Traceback (most recent" in err.getvalue():
        raise Violation(f"{label}: {err.getvalue()}")
    if code in (1, 2) and not err.getvalue().strip():
        raise Violation(f"{label}: exit code {code} without a message")
    return out.getvalue() + err.getvalue()


def file_states(folder: Path, exclude: Path | None = None) -> dict[str, tuple[int, int]]:
    """Return size and modification time of each file below a folder, except those in ``exclude``."""
    states = {}
    for path in sorted(folder.rglob("*")):
        if exclude is None or (path != exclude and exclude not in path.parents):
            status = path.lstat()
            states[str(path)] = (status.st_size, status.st_mtime_ns if path.is_file() else 0)
    return states
