"""The commands in a run's ``command.txt``: the first line started the run, each further line resumed it.

People copy them into a shell, and somebody else may have written the file.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlher import COMMAND
from rlher.config.override_syntax import literal
from rlher.config.training import keys_ignored_by, run_keys
from rlher.core.console import command_line


def typed_command() -> str:
    """Return the command line of this program as it was typed, without passwords."""
    return os.environ.get(COMMAND, command_line(sys.argv))


def is_resume(words: Sequence[str]) -> bool:
    """Return whether the words of a command line of `rlher train` resume a run."""
    return any(word.partition("=")[0] in ("--resume", "resume") for word in words)


def first_command(text: str) -> str:
    """Return the first line that is one command of rlher, with all special characters quoted; ``""`` if none is."""
    return next((command_line(words) for words in _commands(text)), "")


def repeat_command(text: str, config: Mapping[str, Any]) -> str:
    """Return the command that starts a run with the values that it had at its end.

    :param text: ``command.txt``.
    :param config: ``config.yaml`` with dotted keys.
    """
    words = next(_commands(text), [])
    for key in changed_keys(text, config):
        words = [word for word in words if word.partition("=")[0] != key] + [f"{key}={literal(config[key])}"]
    return shlex.join(words)


def resume_note(text: str, config: Mapping[str, Any]) -> str:
    """Return what an extended run has in common with one of :func:`repeat_command`; empty if it was not extended."""
    given = [f"{key}={literal(config[key])}" for key in changed_keys(text, config)]
    if not given:
        return ""
    return (
        f"The run was resumed with {' '.join(given)}, which the command sets from the start: what depends on the share "
        "of the run that is done, such as a schedule of the learning rate or of exploration, may differ."
    )


def changed_keys(text: str, config: Mapping[str, Any]) -> list[str]:
    """Return the keys of the experiment that were given when a run was resumed, such as ``total_timesteps``."""
    keys = run_keys()
    changeable = [key for key in keys_ignored_by("resume") if keys[key].metadata["affects"] == "experiment"]
    given = {word.partition("=")[0] for words in _commands(text) if is_resume(words) for word in words}
    return [key for key in changeable if key in given and key in config]


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each line that is one command of rlher."""
    for line in text.splitlines():
        try:
            words = shlex.split(line)
        except ValueError:  # a quote that is not closed
            continue
        if words[:1] == ["rlher"] and line.isprintable():
            yield words
