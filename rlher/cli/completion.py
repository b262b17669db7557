"""Tab completion of commands, flags, config keys and their values."""

import glob
import os
import re
from collections.abc import Iterable, Sequence

from rlher.cli.commands import COMMANDS
from rlher.config.key import Key
from rlher.config.overrides import names_in_group
from rlher.core.errors import UserError

COMPLETION_FLAGS = ("-sc", "--shell-completion")
SHELL_SAFE = re.compile(r"[\w./:@%+=,-]+")
"""Words without characters that a shell interprets."""

FILE_GROUPS = ("env", "recipe", "space")
"""Groups whose value may also be the path of a YAML file."""

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
"""Script that switches on the completion in a shell, by ``eval`` or ``source``."""


def complete(argv: list[str]) -> int:
    """Answer ``rlher -sc query=<shell>`` or print the script for ``rlher -sc install=<shell>``. Return the exit code.

    :raises UserError: there is no script for the shell.
    """
    action, _, shell = argv[-1].partition("=")
    if action != "query":
        if shell not in SCRIPTS:
            raise UserError(f"write `rlher -sc install=<shell>` with one of {', '.join(SCRIPTS)}.")
        print(SCRIPTS[shell], end="")
        return 0
    *before, word = os.environ.get("COMP_LINE", "").split(" ")
    candidates = _candidates([other for other in before[1:] if other], word)
    # Offer only words that are safe in a shell: bash would run $(rm -r *) in a name.
    print("\n".join(name for name in candidates if name.startswith(word) and SHELL_SAFE.fullmatch(name)))
    return 0


def _candidates(before: list[str], word: str) -> Iterable[str]:
    """Return candidates for the completion of a word.

    :param before: the words before this word, without the program.
    """
    if not before:
        return COMMANDS
    command = COMMANDS.get(before[0], COMMANDS["train"])
    if word.startswith("-"):
        return command.flags
    groups = command.groups
    keys = dict(command.keys)
    positional = keys.pop(getattr(command.positional, "name", ""), None)
    key, equals, start = word.partition("=")
    if equals:
        is_group = key in (*groups, "space")
        values = [*names_in_group(key)] if is_group else [*_values(keys.get(key))]
        if not values or (start and key in FILE_GROUPS):
            values += _paths(start)
        return [f"{key}={value}" for value in values]
    words = _values(positional)
    if positional and word and not words:
        words = _paths(word)
    if words:
        return words
    return {_up_to_next_dot(f"{name}=", len(word)) for name in (*keys, *groups) if name.startswith(word)}


def _up_to_next_dot(text: str, start: int) -> str:
    """Return a text up to and including its first dot after ``start``, or the whole text without such a dot."""
    dot = text.find(".", start)
    return text if dot < 0 else text[: dot + 1]


def _values(key: Key | None) -> Sequence[str]:
    """Return the values that a config key takes, if they can be listed."""
    if key is None:
        return ()
    return ("true", "false") if key.type is bool else key.rules.choices


def _paths(start: str) -> list[str]:
    """Return the files and folders whose path starts with a text."""
    paths = sorted(glob.glob(glob.escape(start) + "*"))
    return [f"{path}/" if os.path.isdir(path) else path for path in paths]
