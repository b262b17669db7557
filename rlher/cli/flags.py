"""The words of a command line as overrides: flags, positional words, and names without a key."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from rlher.cli.commands import Command, load_command
from rlher.cli.groups import GROUPS, options
from rlher.cli.overrides import quoted
from rlher.config.key import default_of
from rlher.config.override_syntax import literal, quote, split_name
from rlher.core.errors import UserError, did_you_mean

LATEST = "latest"
"""What ``--resume`` alone resumes: the newest unfinished run."""
OTHER = ("words", "multirun", "cfg", "config_dir")
"""What a command line has beside config keys."""
ZOO_PAGE = "docs/guide/coming_from.md"


class CommandLine(NamedTuple):
    """The words of a command line, sorted.

    :param overrides: in Hydra's grammar.
    :param is_sweep: ``-m``: an override with several values stands for a job each.
    :param prints_config: ``--cfg job``: print the config in place of running the command.
    :param config_dirs: folders of further config files.
    """

    overrides: list[str]
    is_sweep: bool = False
    prints_config: bool = False
    config_dirs: Sequence[str] = ()


def parse(name: str, argv: Sequence[str]) -> CommandLine:
    """Sort the words after the name of a command, which may come in any order.

    :raises UserError: a flag is unknown or has no value, a word is of no kind, or a file is invalid.
    """
    command = load_command(name)
    try:
        typed, unknown = _parser(command).parse_known_intermixed_args(argv)
    except argparse.ArgumentError as error:
        raise UserError(f"`rlher {name}`: {error}.") from error
    if unknown:
        flag, near = unknown[0].partition("=")[0], did_you_mean(unknown[0].partition("=")[0], command.flags)
        raise UserError(f"`rlher {name}` has no flag {flag}{near}; RL Zoo's flags are translated in {ZOO_PAGE}.")
    resume = vars(typed).get("resume", "")
    if "=" in resume and not os.path.exists(resume):  # --resume total_timesteps=+30
        typed.words.append(resume)
        resume = typed.resume = LATEST
    overrides: list[str] = []
    positionals: list[str] = []
    for word in typed.words:
        if command.positional and _is_positional(word, command):
            positionals.append(word)
        elif group := next((each for each in command.groups[:2] if word in options(each)), None):
            overrides.append(f"{group}={word}")  # rlher train sac FetchReach-v4
        elif resume == LATEST and os.path.exists(word):  # the run after other keys
            typed.resume = word
        elif "=" not in word or word.startswith("="):
            flag = "--" + word.replace("_", "-")
            near = f" (did you mean {flag} or {word}=...?)" if flag in command.flags else ""
            raise UserError(f"{word!r} is neither a flag nor key=value{near}.")
        else:
            overrides.append(quoted(word))
    overrides += [_override(command, key, value) for key, value in vars(typed).items() if key not in OTHER]
    if positionals:
        overrides.insert(0, _positional_override(command, positionals))
    if typed.multirun and typed.cfg:
        raise UserError("--cfg prints one config; leave -m out, and give each key one value.")
    return CommandLine(overrides, typed.multirun, typed.cfg is not None, typed.config_dir)


def _parser(command: Command) -> argparse.ArgumentParser:
    """Return the parser of a command's flags; all other words are its ``words``."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-c", "--cfg", choices=["job"])
    parser.add_argument("-cd", "--config-dir", action="append", default=[])
    for group in command.groups:
        parser.add_argument(f"--{group}", default=argparse.SUPPRESS)
    for name, item in command.flags.items():
        kind: dict[str, Any] = {"action": argparse.BooleanOptionalAction} if item.type is bool else {}
        if item.name == "resume":
            kind = {"nargs": "?", "const": LATEST}
        if item.name not in command.groups:
            short = ["--space"] if item.name == "search_space" else []
            parser.add_argument(name, *short, dest=item.name, default=argparse.SUPPRESS, **kind)
    if "--deterministic" in command.flags:
        parser.add_argument("--stochastic", dest="deterministic", action="store_false", default=argparse.SUPPRESS)
    return parser


def _override(command: Command, key: str, value: Any) -> str:
    """Return the override for a flag: ``n_envs=2`` for ``--n-envs 2``."""
    if key in GROUPS:
        return quoted(f"{key}={value}")
    is_list = isinstance(default_of(command.flags["--" + key.replace("_", "-")]), list)
    return f"{key}={literal([entry for entry in value.split(',') if entry] if is_list else value)}"


def _is_positional(word: str, command: Command) -> bool:
    """Return whether a word is a run folder, which may be called ``lr=0.1``, and not an override.

    ``NAME=folder`` names a curve where a command takes several runs and has no such key.
    """
    if word.startswith("+"):
        return False
    key, equals, _ = word.partition("=")
    folder, _ = split_name(word)
    takes_names = "by" in (names := [item.name for item in fields(command.schema)]) and key not in names
    return not equals or Path(word).is_dir() or (takes_names and ("/" in folder or Path(folder).is_dir()))


def _positional_override(command: Command, words: list[str]) -> str:
    item = command.positional
    assert item is not None
    if item.name == "runs":
        return f"runs=[{','.join(map(quote, words))}]"
    if len(words) > 1:
        raise UserError(f"`rlher {command.name}` takes one {item.name}, not {len(words)}.")
    return f"{item.name}={quote(words[0])}"
