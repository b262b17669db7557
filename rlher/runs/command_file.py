"""The command in a run's ``command.txt``, for people who copy it into a shell; somebody else may have written it."""

import shlex
from collections.abc import Sequence

from rlher.core.console import command_line


def first_command(text: str) -> str:
    """Return the first line that is one command of rlher, with all special characters quoted; ``""`` if none is.

    The lines after it are those that resumed the run.
    """
    for line in text.splitlines():
        try:
            words = shlex.split(line)
        except ValueError:  # a quote that is not closed
            continue
        if words[:1] == ["rlher"] and line.isprintable():
            return command_line(words)
    return ""


def is_resume(words: Sequence[str]) -> bool:
    """Return whether the words of a command line of `rlher train` resume a run."""
    return any(word.partition("=")[0] in ("--resume", "resume") for word in words)
