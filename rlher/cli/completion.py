"""Tab completion of commands, flags, config keys and their values."""

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import Field

from rlher.cli.command import command_names, load_command
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
    *before, word = os.environ.get("COMP_LINE", "").split(" ")
    found = _candidates([each for each in before[1:] if each], word)
    # Without special characters: bash would run $(rm -r *) in a name.
    print("\n".join(each for each in found if each.startswith(word) and PLAIN.fullmatch(each)))
    return 0


def _candidates(before: list[str], word: str) -> Iterable[str]:
    """Return what a word may become.

    :param before: the words before it, without the program.
    """
    if not before:
        return command_names()
    from rlher.cli.groups import command_line_choices, options

    command = load_command(before[0] if before[0] in command_names() else "train")
    if word.startswith("-"):
        return command.flags
    keys, groups = command.keys(command.choices() | command_line_choices(before)), command.groups
    own = keys.pop(getattr(command.positional, "name", ""), None)
    key, equals, start = word.partition("=")
    if equals:
        is_group = key in (*groups, "space")
        values = options(key) if is_group else _values(keys.get(key)) or _paths(start)
        return [f"{key}={value}" for value in values]
    if found := _values(own) or (own and word and _paths(word)):
        return found
    names = [f"{each}=".removeprefix(word) for each in (*keys, *groups) if each.startswith(word)]
    return {word + "".join(name.partition(".")[:2]) for name in names}  # up to the next dot


def _values(item: Field | None) -> Sequence[str]:
    """Return the values that a config key takes, if they can be listed."""
    if item is None:
        return ()
    return ("true", "false") if item.type is bool else item.metadata.get("choices", ())


def _paths(start: str) -> list[str]:
    """Return the files and folders whose path starts with a text."""
    found = sorted(glob.glob(glob.escape(start) + "*"))
    return [f"{path}/" if os.path.isdir(path) else path for path in found]
