"""The command in a run's ``command.txt``, for people who copy it into a shell; somebody else may have written it."""

import os
import shlex
import sys
from collections.abc import Sequence

from rlher import COMMAND
from rlher.core.console import command_line


def typed_command() -> str:
    """Return the command line of this program as it was typed, without passwords."""
    return os.environ.get(COMMAND, command_line(sys.argv))


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
