"""Tab completion: of commands, flags and run folders here, of config keys and values by Hydra."""

import contextlib
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

from rlher.cli.commands import command_names, load_command
from rlher.core.errors import UserError

FLAGS = ("-sc", "--shell-completion")
PLAIN = re.compile(r"[\w./:@%+=,-]+")
"""Words in which no character means anything to a shell."""

# `command` takes the program from the search path: TAB after ./rlher must not run a file of the current folder.
# Names of files come from `complete -o default`, which quotes them; `compgen -o default` does not.
BASH = """\
_rlher() {
  COMPREPLY=($(compgen -W "$(COMP_LINE=$COMP_LINE command rlher -sc query=bash)" -- "$2"))
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}
complete -o nospace -o default -F _rlher rlher
"""
SCRIPTS = {
    "bash": BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{BASH}",
    "fish": "complete -c rlher -f -a '(COMP_LINE=(commandline -cp) command rlher -sc query=fish)'\n",
}
"""What ``eval`` or ``source`` takes to switch on the completion in a shell."""


def complete(argv: list[str]) -> int:
    """Answer ``rlher -sc query=<shell>``, or print the script of ``rlher -sc install=<shell>``; return the exit code.

    :raises UserError: there is no script for the shell.
    """
    action, _, shell = argv[-1].partition("=")
    if action != "query":
        if shell not in SCRIPTS:
            raise UserError(f"write `rlher -sc install=<shell>` with one of {', '.join(SCRIPTS)}.")
        print(SCRIPTS[shell], end="")
        return 0
    program, _, words = os.environ.get("COMP_LINE", "").partition(" ")
    name, space, rest = words.lstrip().partition(" ")
    found: list[str] | None = []
    with contextlib.suppress(Exception, SystemExit):  # nothing completes a line that cannot be parsed
        found = _complete_word(name, rest.rpartition(" ")[2]) if space else _starting_with(command_names(), name)
        if found is None:
            found = _complete_by_hydra(name, f"{program} {rest}", f"query={shell}")
    # Without special characters: bash would run $(rm -r *) in a name.
    print("\n".join(each for each in found or () if PLAIN.fullmatch(each)))
    return 0


def _complete_by_hydra(name: str, line: str, query: str) -> list[str]:
    """Complete a config key or its value."""
    from rlher.cli.composition import initialized

    os.environ["COMP_LINE"] = line
    command = load_command(name if name in command_names() else "train")
    with (
        contextlib.redirect_stdout(io.StringIO()) as answer,
        contextlib.redirect_stderr(io.StringIO()),
        initialized(command) as hydra,
    ):
        hydra.shell_completion(command.name, [query])
    return answer.getvalue().split()


def _complete_word(name: str, word: str) -> list[str] | None:
    """Complete a flag or a positional word of a command; None: Hydra completes it."""
    from rlher.cli import flags

    if name not in command_names():
        return [] if word.startswith("-") else None
    command = load_command(name)
    if word.startswith("-"):
        return _starting_with(flags.flags(command), word)
    key, equals, start = word.partition("=")
    if equals and key in flags.groups(command):
        return [f"{key}={name}" for name in _starting_with(flags.options(key), start)]
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
