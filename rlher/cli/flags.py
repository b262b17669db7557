"""Flags and positional words of a command, derived from its config keys."""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, NamedTuple

from rlher.cli.commands import Command
from rlher.cli.zoo_table import FLAGS
from rlher.config.override_syntax import quote
from rlher.core.errors import UserError, did_you_mean

GROUPS = ("algo", "env", "her", "engine", "recipe", "preset")
"""Config groups, which are chosen with ``<group>=<name>`` or ``--<group> <name>``."""


class Flag(NamedTuple):
    """A flag that sets one config key."""

    key: str
    default: Any
    text: str


def flags(command: Command) -> dict[str, Flag]:
    """Return the command's flags by name, one per key outside of any section; a list is typed with commas."""
    found = {}
    for item in fields(command.schema):
        default = item.default if item.default_factory is MISSING else item.default_factory()
        if not is_dataclass(default) and not (item.metadata["positional"] and isinstance(default, list)):
            found["--" + item.name.replace("_", "-")] = Flag(item.name, default, item.metadata["text"])
    return found


def positional(command: Command) -> Field | None:
    """Return the key that words without a flag set, such as the run folder of ``rlher enjoy <run>``."""
    return next((item for item in fields(command.schema) if item.metadata.get("positional")), None)


def groups(command: Command) -> list[str]:
    """Return the config groups that a command has."""
    names = [item.name for item in fields(command.schema)]
    return [group for group in GROUPS if group in names or (group == "preset" and "algo" in names)]


def flag_value(flag: str, words: Iterator[str]) -> str:
    """Return the word after a flag.

    :raises UserError: there is none.
    """
    value = next(words, None)
    if value is None:
        raise UserError(f"{flag} needs a value.")
    return value


def flag_to_override(command: Command, word: str, words: Iterator[str]) -> str:
    """Return the override for a flag: ``n_envs=2`` for ``--n-envs 2`` or ``--n-envs=2``.

    :param words: the words after it, of which its value is taken.
    :raises UserError: the flag is unknown or has no value.
    """
    known = flags(command)
    flag, equals, value = word.partition("=")
    negated = flag.startswith("--no-") and "--" + flag[5:] in known and isinstance(known["--" + flag[5:]].default, bool)
    if negated:
        flag = "--" + flag[5:]
    if flag[2:] in groups(command):
        return f"{flag[2:]}={value if equals else flag_value(flag, words)}"
    if flag not in known:
        zoo = [name for row in FLAGS.get(command.name, ()) for name in row.names.split(", ")]
        raise UserError(f"`rlher {command.name}` has no flag {flag}{did_you_mean(flag, [*known, *zoo])}.")
    key, default, _ = known[flag]
    if isinstance(default, bool) and not equals:
        return f"{key}={'false' if negated else 'true'}"
    value = value if equals else flag_value(flag, words)
    if isinstance(default, list):
        return f"{key}=[{','.join(quote(entry) for entry in value.split(',') if entry)}]"
    return f"{key}={quote(value)}"
