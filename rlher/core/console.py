"""Text for the terminal and log files: warnings on stderr, control characters escaped, passwords hidden, durations."""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import TextIO

ADDRESS = re.compile(r":/*(?=[^\s/])")
"""The ``://`` of an address, or the ``:`` of ``user:password`` where the scheme is missing."""

PARAMETERS = re.compile(r"\?[^\s=?]*=")
"""The first parameter of an address, for example ``?password=``."""


def redact(text: str) -> str:
    """Return ``text`` with the user, password and parameters of an address hidden: ``postgresql://***@host/db?***``.

    A password may contain any character, blanks and ``@`` included, so everything from the first ``:`` to the last
    ``@`` and everything after a ``?name=`` is hidden, except closing quotes and brackets. Hiding too much is accepted.
    """
    before, _, after = text.replace("%40", "@").rpartition("@")
    if found := ADDRESS.search(before):
        hidden = before[found.end() :]
        text = f"{before[: found.end()]}***" + ("" if PARAMETERS.search(hidden) else f"@{after}")
    if found := PARAMETERS.search(text):
        closing = text[len(text.rstrip("'\"]")) :]
        text = f"{text[: found.start()]}?***{closing}"
    return text


def command_line(words: Sequence[str]) -> str:
    """Return a command as one would type it, without passwords; words are redacted before they are quoted."""
    return shlex.join(redact(word) for word in words)


def escape_control(text: str) -> str:
    """Return ``text`` with characters a terminal would obey or hide made visible, for example as ``\\x1b``."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def format_seconds(seconds: float) -> str:
    """Return a rough duration: "40 s", "12 min", "3:05 h"."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}:{minutes:02} h" if hours else f"{minutes} min" if seconds >= 120 else f"{seconds:.0f} s"


def can_redraw(stream: TextIO) -> bool:
    """Return whether lines of a stream can be drawn again: it is a terminal, and not one without cursor movement."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def warn(message: str) -> None:
    """Print a message on stderr, as one line that starts with ``rlher:``."""
    print(f"rlher: {escape_control(redact(message))}", file=sys.stderr)
