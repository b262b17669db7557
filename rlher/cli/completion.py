"""Tab completion: of commands, flags and run folders here, of config keys and values by Hydra."""

import contextlib
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

from rlher.cli.commands import command_names, load_command

FLAGS = ("-sc", "--shell-completion")
PLAIN = re.compile(r"[\w./:@%+=,-]+")
"""Words in which no character means anything to a shell."""


def complete(argv: list[str]) -> int:
    """Answer ``rlher -sc query=<shell>``, or install and uninstall the completion, and return the exit code."""
    program, _, words = os.environ.get("COMP_LINE", "").partition(" ")
    name, space, rest = words.lstrip().partition(" ")
    is_query = "query" in " ".join(argv)
    if is_query:
        completions = _complete_word(name, rest.rpartition(" ")[2]) if space else _starting_with(command_names(), name)
        if completions is not None:
            _print(completions)
            return 0
    from rlher.cli.composition import initialized

    os.environ["COMP_LINE"] = f"{program} {rest}"
    command = load_command(name if name in command_names() else "train")
    words_for_hydra = [word for word in argv if word not in FLAGS]
    with initialized(command) as hydra:
        if not is_query:
            hydra.shell_completion(None, words_for_hydra)
            return 0
        with contextlib.redirect_stdout(io.StringIO()) as answer:
            hydra.shell_completion(command.name, words_for_hydra)
    _print(answer.getvalue().split())
    return 0


def _print(completions: Iterable[str]) -> None:
    """Print the completions without special characters: bash would run ``$(rm -r *)`` in one."""
    print(" ".join(each for each in completions if PLAIN.fullmatch(each)))


def _complete_word(name: str, word: str) -> list[str] | None:
    """Complete a flag or a positional word of a command; None: Hydra completes it."""
    from rlher.cli import flags

    if name not in command_names():
        return [] if word.startswith("-") else None
    command = load_command(name)
    if word.startswith("-"):
        return _starting_with(flags.flags(command), word)
    item = flags.positional(command)
    if item is None or "=" in word:
        return None
    if item.metadata["choices"]:
        return _starting_with(item.metadata["choices"], word)
    if not word or word.startswith("/"):
        return None
    return [f"{path}/" for path in sorted(Path().glob(word + "*")) if path.is_dir()] or None


def _starting_with(names: Iterable[str], start: str) -> list[str]:
    return [name for name in names if name.startswith(start)]
