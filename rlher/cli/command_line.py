"""Turn the words of a command line into overrides: flags, ``key=value`` and positional words."""

import argparse
import itertools
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from rlher.cli import rl_zoo
from rlher.cli.commands import COMMANDS, Command
from rlher.config.command_configs import split_named_folder
from rlher.config.compose import compose
from rlher.config.key import Key
from rlher.config.overrides import (
    SweepValues,
    groups_first,
    names_in_group,
    override_text,
    override_words,
    parse_value,
)
from rlher.core.errors import UserError, did_you_mean

RL_ZOO_PAGE = "docs/guide/coming_from.md"


class CommandLine(NamedTuple):
    """A parsed command line.

    :param command: the command to run.
    :param overrides: the values that the words set, by config key or short form.
    :param is_sweep: the line has ``-m``, so a value may be a :class:`~rlher.config.overrides.SweepValues`.
    :param prints_config: the line has ``--cfg job``: print the config instead of running the command.
    """

    command: Command
    overrides: dict[str, Any]
    is_sweep: bool = False
    prints_config: bool = False

    def combinations(self) -> list[dict[str, Any]]:
        """Return the overrides of each run: one run, or in a sweep one run for each combination of values."""
        choices = [value if isinstance(value, SweepValues) else [value] for value in self.overrides.values()]
        return [dict(zip(self.overrides, values, strict=True)) for values in itertools.product(*choices)]

    def config(self) -> Any:
        """Compose the config, if this is no sweep.

        :raises UserError: the config cannot be composed, or a value is invalid.
        """
        if self.command.make_config:
            return self.command.make_config(self.overrides)
        return compose(self.command.schema, self.overrides)

    def __str__(self) -> str:
        """Return the line as a user could type it, with a word for each override."""
        words = ["rlher", self.command.name, *(["-m"] if self.is_sweep else [])]
        positional = self.command.positional
        for key, value in groups_first(self.overrides.items()):
            if positional and key == positional.name:
                words += map(str, value if isinstance(value, list) else [value])
            else:
                words += override_words({key: value})
        return shlex.join(words)


def parse(name: str, argv: Sequence[str]) -> CommandLine:
    """Parse the words after the name of a command. They may come in any order.

    A flag overrides a word ``key=value``, and a later word an earlier one.

    :raises UserError: a flag is unknown or has no value, a word is no flag, override or run, or a file is invalid.
    """
    command = COMMANDS[name]
    namespace, unknown = _parser(command).parse_known_intermixed_args(argv)
    if unknown:
        flag = unknown[0].partition("=")[0]
        near = did_you_mean(flag, command.flags)
        raise UserError(f"`rlher {name}` has no flag {flag}{near}; RL Zoo's flags are translated in {RL_ZOO_PAGE}.")
    given = vars(namespace)
    words = given.pop("words", [])
    conf_file = given.pop("conf_file", None)
    is_sweep = given.pop("multirun", False)
    prints_config = given.pop("cfg", None) is not None
    if is_sweep and prints_config:
        raise UserError("--cfg prints one config; leave -m out, and give each key one value.")

    hyperparameters, others = rl_zoo.translate_hyperparameters(given.pop("params", []))
    flag_values: dict[str, Any] = {}
    for key, value in given.items():
        declared = command.keys.get(key)  # None for a group, such as `algo`
        flag_values[key] = parse_value(key, value, declared, is_sweep) if isinstance(value, str) else value
    word_values = _word_values([*words, *others], command, is_sweep)

    overrides = word_values | flag_values | hyperparameters
    if not is_sweep:
        _require_single_values(command, overrides)
    if conf_file:
        overrides |= rl_zoo.file_overrides(conf_file, overrides)
    return CommandLine(command, overrides, is_sweep, prints_config)


def _word_values(words: list[str], command: Command, is_sweep: bool) -> dict[str, Any]:
    """Return the values of words that are not flags: overrides, and words that name runs.

    :raises UserError: a word is neither override nor run, or there are several runs for a command that takes one run.
    """
    positional = command.positional
    overrides: dict[str, Any] = {}
    paths: list[str] = []
    for word in words:
        if positional and _is_path(word, command, positional):
            paths.append(word)
        else:
            overrides |= _override(word, command, is_sweep)
    if positional and paths:
        if len(paths) > 1 and not positional.takes_list:
            raise UserError(f"`rlher {command.name}` takes one {positional.name}, not {', '.join(paths)}.")
        overrides[positional.name] = paths if len(paths) > 1 else paths[0]
    return overrides


def _override(word: str, command: Command, is_sweep: bool) -> dict[str, Any]:
    """Return the key and value of a word such as ``algo.gamma=0.9``.

    :raises UserError: the word is not an override.
    """
    name, equals, text = word.partition("=")
    if equals and name:
        key = name.lstrip("+")  # with + Hydra would accept any key, so a misspelt one would have no effect
        return {key: parse_value(key, text, command.keys.get(key), is_sweep)}
    flag = "--" + word.replace("_", "-")
    choices = [f"{group}={word}" for group in command.groups if word in names_in_group(group)]
    near = [f"{flag} or {word}=..."] if flag in command.flags else choices
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise UserError(f"{word!r} is neither a flag nor key=value{hint}.")


class _Parser(argparse.ArgumentParser):
    """A parser that raises UserError instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"`{self.prog}`: {message}.")


def _parser(command: Command) -> _Parser:
    """Return the parser of a command's flags. The parser collects all other words in ``words``."""
    prog = f"rlher {command.name}"
    parser = _Parser(prog, argument_default=argparse.SUPPRESS, add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("-c", "--cfg", choices=["job"])
    if command.sweep:
        parser.add_argument("-m", "--multirun", action="store_true")
    for flag, key in command.flags.items():
        if key.name not in command.groups:
            action = argparse.BooleanOptionalAction if key.type is bool else "store"
            parser.add_argument(flag, dest=key.name, action=action)
    for group in command.groups:
        parser.add_argument(f"--{group}")
    if "algo" in command.groups:
        rl_zoo.add_flags(parser)
    return parser


def _require_single_values(command: Command, overrides: Mapping[str, Any]) -> None:
    """Raise UserError if a key has several values. Only a sweep may have them."""
    for key, value in overrides.items():
        if isinstance(value, SweepValues):
            advice = f"give one{', or add -m' if command.sweep else ''}"
            raise UserError(f"{key}={override_text(value)} has several values; {advice}.")


def _is_path(word: str, command: Command, positional: Key) -> bool:
    """Return whether a word is a run folder and not an override. A folder may have a name such as ``lr=0.1``.

    ``NAME=folder`` names a curve if the command takes several runs and has no key ``NAME``.
    """
    folder, name = split_named_folder(word)
    if not name:
        return True  # a word without "=", or an existing folder with "=" in its name
    is_folder = "/" in folder or os.path.isdir(folder)
    return positional.takes_list and name not in command.keys and is_folder
