"""Text for the terminal and log files: warnings, control characters escaped, durations, tables."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

UNLIMITED_WIDTH = 10_000
"""Characters per line of a table that is not printed to a terminal, so that no cell wraps."""


def escape_control(text: str) -> str:
    """Return ``text`` with control and invisible characters escaped, for example as ``\\x1b``."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def print_line(text: str) -> None:
    """Print a line of the result on stdout, with control characters escaped."""
    print(escape_control(text))


def print_note(text: str) -> None:
    """Print a line that is not part of the result on stderr, with control characters escaped."""
    print(escape_control(text), file=sys.stderr)


def format_seconds(seconds: float) -> str:
    """Return a rough duration: "40 s", "12 min", "3:05 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}:{minutes:02} h" if hours else f"{minutes} min"


def can_redraw(stream: TextIO) -> bool:
    """Return whether lines of a stream can be drawn again: the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


_recordings: list[list[str]] = []
"""The lists that :func:`recorded_warnings` is filling."""


def warn(message: str) -> None:
    """Print a message on stderr, as one line that starts with ``rlher:``."""
    print(f"rlher: {escape_control(message)}", file=sys.stderr)
    for messages in _recordings:
        messages.append(message)


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Yield a list to which :func:`warn` adds its messages until the block ends."""
    _recordings.append([])
    try:
        yield _recordings[-1]
    finally:
        _recordings.pop()


def output_width() -> int:
    """Return the characters per line of a table on stdout."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED_WIDTH


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return a table with aligned columns. In a table that is too wide, cells wrap between words.

    :param width: characters per line. Longer words are broken.
    """
    from rich import box  # takes a tenth of a second, and few commands print tables
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in header:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=width, color_system=None, force_jupyter=False)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
