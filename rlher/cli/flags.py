"""The words of a command line as Hydra's overrides: flags, positional words, environment ids and recipe files."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from rlher.cli.commands import Command, load_command
from rlher.config.override_syntax import literal, quote, split_name
from rlher.core.errors import UserError, did_you_mean, first_line, os_error_reason
from rlher.core.safe_read import read_yaml
from rlher.her.names import STRATEGIES

GROUPS = ("algo", "env", "her", "recipe")
"""Keys that take the name of a set of values, with ``<group>=<name>`` or ``--<group> <name>``."""
NAMED_CLASS = re.compile(r"([{,]\s*[\w.]+):(\w+\s*:)")
"""``module:Class:`` in a mapping; Hydra's grammar needs its first colon escaped."""
CLASSES = ("env.wrappers", "callbacks")
"""Keys whose values name classes."""
SPECIAL = re.compile(r"[,(\[{$']")
"""Characters of values that Hydra interprets, such as the commas of a sweep."""
OPEN_MAPPINGS = re.compile(
    r"(env\.kwargs|algo\.kwargs|algo\.policy_kwargs|her\.goal_mix|her\.goal_selection_kwargs)(\.|$)"
)
YAML_SUFFIXES = (".yaml", ".yml")
HER = {
    "default": [],
    "off": ["her.n_sampled_goal=0"],
    # As SB3's HerReplayBuffer: done as stored, reward from compute_reward alone (SB3 #627, baselines #720).
    "sb3": ["her.relabel_done=keep", "her.keep_goal_independent_reward=false"],
}
"""What ``her=<name>`` stands for, beside the names of strategies."""
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
    return [group for group in GROUPS if group in names]


# ---------------------------------------------------------------------------------------------- sorting the words


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
        flag, near = unknown[0].partition("=")[0], did_you_mean(unknown[0].partition("=")[0], flags(command))
        raise UserError(f"`rlher {name}` has no flag {flag}{near}; RL Zoo's flags are translated in {ZOO_PAGE}.")
    overrides: list[str] = []
    positionals: list[str] = []
    for word in typed.words:
        if positional(command) and _is_positional(word, command):
            positionals.append(word)
        elif group := next((each for each in groups(command)[:2] if word in options(each)), None):
            overrides.append(f"{group}={word}")  # rlher train sac FetchReach-v4
        elif ("=" not in word and not word.startswith("~")) or word.startswith("="):
            flag = "--" + word.replace("_", "-")
            near = f" (did you mean {flag} or {word}=...?)" if flag in flags(command) else ""
            raise UserError(f"{word!r} is neither a flag nor key=value{near}.")
        elif word.startswith("space="):  # Hydra would take it for its config group conf/space
            overrides.append(f"search_{word}")
        else:
            overrides.append(word.removeprefix(f"{command.name}."))  # optimize.n_seeds=3 is n_seeds=3
    overrides += [_override(command, key, value) for key, value in vars(typed).items() if key not in OTHER]
    if positionals:
        overrides.insert(0, _positional_override(command, positionals))
    if typed.multirun and typed.cfg:
        raise UserError("--cfg prints one config; leave -m out, and give each key one value.")
    overrides = [each for word in overrides for each in _expand(word, typed.config_dir)]
    return CommandLine(overrides, typed.multirun, typed.cfg is not None, typed.config_dir)


def _parser(command: Command) -> argparse.ArgumentParser:
    """Return the parser of a command's flags; all other words are its ``words``."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-c", "--cfg", choices=["job"])
    parser.add_argument("-cd", "--config-dir", action="append", default=[])
    known = flags(command)
    for group in groups(command):
        parser.add_argument(f"--{group}", default=argparse.SUPPRESS)
    for name, flag in known.items():
        action: Any = argparse.BooleanOptionalAction if isinstance(flag.default, bool) else "store"
        if flag.key not in groups(command):
            short = ["--space"] if flag.key == "search_space" else []
            parser.add_argument(name, *short, dest=flag.key, action=action, default=argparse.SUPPRESS)
    if "--deterministic" in known:
        parser.add_argument("--stochastic", dest="deterministic", action="store_false", default=argparse.SUPPRESS)
    return parser


def _override(command: Command, key: str, value: Any) -> str:
    """Return the override for a flag: ``n_envs=2`` for ``--n-envs 2``."""
    if key in groups(command):
        return f"{key}={value}"  # quoted later, if it is a file
    is_list = isinstance(flags(command)["--" + key.replace("_", "-")].default, list)
    return f"{key}={literal([entry for entry in value.split(',') if entry] if is_list else value)}"


def _is_positional(word: str, command: Command) -> bool:
    """Return whether a word is a run folder, which may be called ``lr=0.1``, and not an override.

    ``NAME=folder`` names a curve where a command takes several runs and has no such key.
    """
    if word.startswith(("~", "+")):
        return False
    key, equals, _ = word.partition("=")
    folder, _ = split_name(word)
    takes_names = "by" in (names := [item.name for item in fields(command.schema)]) and key not in names
    return not equals or Path(word).is_dir() or (takes_names and ("/" in folder or Path(folder).is_dir()))


def _positional_override(command: Command, words: list[str]) -> str:
    item = positional(command)
    assert item is not None
    if item.name == "runs":
        return f"runs=[{','.join(map(quote, words))}]"
    if len(words) > 1:
        raise UserError(f"`rlher {command.name}` takes one {item.name}, not {len(words)}.")
    return f"{item.name}={quote(words[0])}"


# ------------------------------------------------------------------------------------------------ values and files


def _expand(word: str, config_dirs: list[str]) -> list[str]:
    """Return the overrides that Hydra needs for one typed override."""
    key, _, value = word.partition("=")
    if key.lstrip("+") != key and not key.lstrip("+").startswith("hydra"):
        # With + Hydra would accept any key, so a misspelt one would have no effect.
        return _expand(word.lstrip("+"), config_dirs)
    if key == "her" and value.lower() == "false":
        return ["her=off"]  # YAML's other word for it
    if key == "recipe":
        names = [value] if Path(value).is_file() else value.split(",")  # a file may have a comma in its name
        return ["recipe=" + ",".join(quote(name) if name else "null" for name in names)]
    if key in GROUPS and value in ("", "null"):
        raise UserError(f"{word}: {key} needs a name; use one of {', '.join(options(key))}.")
    if key == "env" and value and not re.search(SPECIAL, value) and not option_file("env", value, config_dirs):
        return ["env=any", f"env.id={quote(value)}"]
    if key in (*CLASSES, "her.goal_mix"):
        word = NAMED_CLASS.sub(r"\1\\:\2", word)
    if key == "demos":  # a section takes no value itself
        return [f"demos.path={value if re.search(SPECIAL, value) else quote(value)}"]
    if OPEN_MAPPINGS.match(key):
        return [f"++{word}"]  # Hydra's plain form only changes keys that exist
    if re.fullmatch(r"\d+\.0|[\d.]+e\+?\d+", value, re.IGNORECASE) and float(value).is_integer():
        return [f"{key}={int(float(value))}"]  # total_timesteps=1e5; OmegaConf refuses a float for a whole number
    is_ascii = value.isascii() or re.search(SPECIAL, value)  # Hydra's grammar has letters of ASCII only
    return [word if is_ascii else f"{key}={quote(value)}"]


def her_overrides(name: str | None) -> list[str]:
    """Return what ``her=<name>`` stands for: a strategy, one of one's own as ``module:name``, or a name of ``HER``."""
    return HER.get(name or "default", [f"her.goal_selection_strategy={name}"])


def options(group: str) -> list[str]:
    """Return the names that ``<group>=`` takes."""
    if group == "her":
        return sorted([*HER, *STRATEGIES])
    folder = resources.files("rlher.conf") / group
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def option_file(group: str, name: str, config_dirs: Sequence[str]) -> Path | None:
    """Return the file of ``<group>=<name>`` in a ``--config-dir`` or in ``conf/``; None: there is none."""
    folders = [*map(Path, config_dirs), Path(str(resources.files("rlher.conf")))]
    return next((file for folder in folders if (file := folder / group / f"{name}.yaml").is_file()), None)


def read_file(path: Path) -> Any:
    """Return the content of a YAML file.

    :raises UserError: it cannot be read.
    """
    try:
        return read_yaml(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {os_error_reason(error)}.") from error
    except ValueError as error:
        raise UserError(f"cannot read {path}: {first_line(error)}.") from error
