"""Translation of a command line into Hydra's: flags, positional words, environment ids and recipe files.

Hydra 1.3 wants its own flags before all overrides; here they may come in any order.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path

from rlher.cli.commands import Command, load_command
from rlher.cli.config_files import has_option, options, require_readable, select_recipe
from rlher.cli.flags import GROUPS, flag_to_override, flag_value, flags, positional
from rlher.cli.key_suggestions import integer_keys
from rlher.config.override_syntax import quote
from rlher.core.errors import UserError

HYDRA_SWITCHES = ("-m", "--multirun", "--resolve", "--hydra-help")
HYDRA_FLAGS = {"-c": "--cfg", "-p": "--package", "-cd": "--config-dir", "-cn": "--config-name", "-i": "--info"}
# Hydra would take space=... for its config group conf/space; a search space may also be a path or joined by +.
ALIASES = {"space=": "search_space=", "--space": "--search-space", "--stochastic": "--no-deterministic"}
CLASSES = ("env.wrappers", "callbacks")
NAMED_CLASS = re.compile(r"(\{\s*[\w.]+):(\w+\s*:)")
"""The beginning of ``{module:Class: ...}``; Hydra's grammar needs its first colon escaped."""
SPECIAL = re.compile(r"[,(\[{$']")
"""Characters of values that Hydra interprets, such as the commas of a sweep."""
SB3_VALUES = {
    re.compile(r"algo\.train_freq=[\[(](\w+),\s*['\"]?(\w+)['\"]?[\])]"): r"algo.train_freq=\1 algo.train_freq_unit=\2",
    re.compile(r"algo\.learning_rate=['\"]?lin_([\w.+-]+)['\"]?"): (
        r"algo.learning_rate=\1 algo.learning_rate_schedule=linear"
    ),
}
"""Values as Stable-Baselines3 and RL Zoo write them, each with the overrides that it stands for."""
OPEN_MAPPINGS = re.compile(r"(env\.kwargs|algo\.kwargs|her\.goal_mix)(\.|$)")


@dataclass
class SplitLine:
    """The words of a command line by kind."""

    hydra_flags: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    positionals: list[str] = field(default_factory=list)


def to_hydra(name: str, argv: Sequence[str]) -> list[str]:
    """Return Hydra's command line for a command's, Hydra's flags first.

    :raises UserError: a flag, a value or a file is invalid.
    """
    command = load_command(name)
    line = split(command, argv)
    validate_flag_pairs(line.hydra_flags)
    if line.positionals:
        line.overrides.insert(0, _positional_override(command, line.positionals))
    _require_env_for_its_keys(command, line.overrides)
    config_dirs = [value for flag, value in pairwise(line.hydra_flags) if flag in ("-cd", "--config-dir")]
    overrides = [each for word in line.overrides for each in _expand(word, config_dirs)]
    require_readable(overrides, config_dirs)
    return line.hydra_flags + overrides


def _require_env_for_its_keys(command: Command, overrides: Sequence[str]) -> None:
    """Raise UserError for keys of an environment that is not chosen, on the command line of a command that has none."""
    typed = [word for word in overrides if word.lstrip("+").startswith("env.")]
    env = next((item for item in fields(command.schema) if item.name == "env"), None)
    if typed and env is not None and env.default is None and not any(word.startswith("env=") for word in overrides):
        raise UserError(f"{typed[0]}: an agent plays the environment that it was trained in; leave {typed[0]} out.")


def split(command: Command, argv: Sequence[str]) -> SplitLine:
    """Sort the words of a command line by kind; rlher's flags become overrides.

    :raises UserError: a flag is unknown or has no value, or a word is of no kind.
    """
    line = SplitLine()
    words = iter(
        re.sub(r"^(space=|--space(?=$|=)|--stochastic$)", lambda found: ALIASES[found[1]], word) for word in argv
    )
    for word in words:
        if word in HYDRA_SWITCHES:
            line.hydra_flags.append(word)
        elif word.partition("=")[0] in (*HYDRA_FLAGS, *HYDRA_FLAGS.values()):
            flag, equals, value = word.partition("=")
            line.hydra_flags += [flag, value if equals else flag_value(flag, words)]
        elif word.startswith("--"):
            line.overrides.append(flag_to_override(command, word, words))
        elif positional(command) and _is_positional(word):
            line.positionals.append(word)
        elif ("=" not in word and not word.startswith("~")) or word.startswith("="):
            flag = "--" + word.replace("_", "-")
            near = f" (did you mean {flag} or {word}=...?)" if flag in flags(command) else ""
            raise UserError(f"{word!r} is neither a flag nor key=value{near}.")
        else:
            line.overrides.append(word.removeprefix(f"{command.name}."))  # optimize.n_seeds=3 is n_seeds=3
    return line


def _is_positional(word: str) -> bool:
    """Return whether a word is a run folder, which may be called ``lr=0.1``, and not an override."""
    return ("=" not in word or Path(word).is_dir()) and not word.startswith(("-", "~", "+"))


def _positional_override(command: Command, words: list[str]) -> str:
    item = positional(command)
    assert item is not None
    if item.name == "runs":
        return f"runs=[{','.join(map(quote, words))}]"
    if len(words) > 1:
        raise UserError(f"`rlher {command.name}` takes one {item.name}, not {len(words)}.")
    return f"{item.name}={quote(words[0])}"


def validate_flag_pairs(hydra_flags: list[str]) -> None:
    """Raise UserError for pairs of flags that Hydra cannot combine, and add ``--resolve`` to ``--cfg``."""
    if "--cfg" in hydra_flags or "-c" in hydra_flags:
        if "-m" in hydra_flags or "--multirun" in hydra_flags:
            raise UserError("--cfg prints the config of one run; leave out -m and the sweep.")
        if "--resolve" not in hydra_flags:
            hydra_flags.append("--resolve")
    elif "-p" in hydra_flags or "--package" in hydra_flags:
        raise UserError("-p selects a part of what --cfg job prints; add --cfg job.")


def _expand(word: str, config_dirs: list[str]) -> list[str]:
    """Return the overrides that Hydra needs for one typed override."""
    key, _, value = word.partition("=")
    if key.lstrip("+") != key and not key.lstrip("+").startswith("hydra"):
        # With + Hydra would accept any key, so a misspelt one would have no effect.
        return _expand(word.lstrip("+"), config_dirs)
    if key in ("tuned", "~tuned"):
        raise UserError(f"{word}: this group is named recipe; use recipe=<name>, recipe=<file>.yaml or recipe=null.")
    if key == "recipe":
        return [select_recipe(value, config_dirs)]
    for pattern, overrides in SB3_VALUES.items():
        if found := pattern.fullmatch(word):
            return found.expand(overrides).split()
    if key in GROUPS and value in ("", "null"):
        raise UserError(f"{word}: {key} needs a name; use one of {', '.join(options(key))}.")
    if key == "env" and value and not re.search(SPECIAL, value) and not has_option("env", value, config_dirs):
        return ["env=any", f"env.id={quote(value)}"]
    if key in CLASSES:
        return [NAMED_CLASS.sub(r"\1\\:\2", word)]
    if key == "demos":  # a section cannot have a value of its own
        return [f"demos.path={value if re.search(SPECIAL, value) else quote(value)}"]
    if OPEN_MAPPINGS.match(key):
        return [f"++{word}"]  # Hydra's plain form only changes keys that exist
    if re.fullmatch(r"[\d.]+e\+?\d+", value, re.IGNORECASE) and key in integer_keys() and float(value).is_integer():
        return [f"{key}={int(float(value))}"]  # total_timesteps=1e5
    is_ascii = value.isascii() or re.search(SPECIAL, value)  # Hydra's grammar has letters of ASCII only
    return [word if is_ascii else f"{key}={quote(value)}"]
