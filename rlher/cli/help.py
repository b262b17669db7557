"""The texts of ``rlher --help`` and of a command's ``--help`` and ``--help-all``."""

import textwrap
from typing import Any

from rlher import __version__
from rlher.cli.commands import COMMANDS, Command
from rlher.config.key import Key
from rlher.config.overrides import names_in_group, override_text
from rlher.core.console import output_width

HELP_FLAGS = ("-h", "--help", "--help-all")

EXAMPLES = (
    "rlher train algo=tqc env=parking-v0",
    "rlher train algo=ddpg env=FetchReach-v4 --seed 1 her.n_sampled_goal=8",
    "rlher train -m algo=sac env=FetchReach-v4 seed=0,1,2 --workers 2",
    "rlher resume logs/tqc/parking-v0_1 more_timesteps=50_000",
    "rlher optimize algo=tqc env=parking-v0 --n-trials 100 --workers 2",
    "rlher evaluate logs/tqc/parking-v0_1 --episodes 200",
    "rlher enjoy --grid 3x2 --video film.mp4",
    "rlher export logs/tqc/parking-v0_1 --output parking",
    "rlher collect env=FetchPush-v4 --episodes 100 --output demos/push-v0",
    "rlher plot --by algo,her.n_sampled_goal",
    "rlher compare logs/sac/parking-v0_* logs/tqc/parking-v0_*",
    "rlher report logs/sac logs/tqc --output report.html",
)
OTHER_VALUES = {"env": ("<file>.yaml", "<id>"), "recipe": ("<file>.yaml", "null")}
"""Values that a group takes besides the listed names."""
MIN_TEXT_WIDTH = 30
"""Minimum characters per line of a text, even on a narrower terminal."""
OTHER_FLAGS = "--cfg job (print the config)   --help-all (list all keys)"
SWEEP_FLAG = "-m key=a,b (one run each)   "


def program_help() -> str:
    """Return the text of ``rlher --help``."""
    lines = [
        f"rlher {__version__}: goal-reaching agents with Hindsight Experience Replay",
        "\nusage: rlher <command> [flags] [key=value ...]\n",
        *(_entry(command.name, 10, command.summary) for command in COMMANDS.values()),
        "\nexamples:",
        *(f"  {example}" for example in EXAMPLES),
        "\nRL Zoo's training lines work too: rlher --algo tqc --env parking-v0 -n 30000 --eval-freq 3000",
        "\n`rlher <command> --help` lists a command's flags, `--help-all` its keys as well. "
        'Tab completion: eval "$(rlher -sc install=bash)"',
    ]
    return "\n".join(lines)


def command_help(command: Command, with_keys: bool = False) -> str:
    """Return the text of ``rlher <command> --help``: flags with text, default and choices.

    :param with_keys: list also groups with their choices, and the keys of all algorithms (``--help-all``).
    """
    lines = [f"rlher {command.name}: {command.summary}", ""]
    lines += [f"usage: rlher {command.name}{_usage(command.positional)} [flags] [key=value ...]", ""]
    if examples := [f"  {example}" for example in EXAMPLES if example.startswith(f"rlher {command.name} ")]:
        lines += [*examples, ""]
    lines.append("flags (each is a key too):")
    lines += [_key_entry(flag, 18, key) for flag, key in command.flags.items()]
    if with_keys and command.groups:
        lines += ["", "groups (`rlher list` describes algorithms, environments and strategies):"]
        for group in command.groups:
            names = [*OTHER_VALUES.get(group, ()), *names_in_group(group)]
            lines.append(_entry(f"{group}=", 7, " | ".join(names)))
    if with_keys:
        lines += ["", "keys of all algorithms (`--cfg job` prints the values for one algorithm and environment):"]
        lines += [_key_entry(name, 34, key) for name, key in command.keys.items()]
    return "\n".join([*lines, "", f"{SWEEP_FLAG if command.sweep else ''}{OTHER_FLAGS}"])


def _usage(positional: Key | None) -> str:
    if positional is None:
        return ""
    return " [<run or folder> ...]" if positional.takes_list else f" [<{positional.name}>]"


def _key_entry(name: str, size: int, key: Key) -> str:
    """Return the entry of a flag or key: its text, default and choices."""
    details = [] if key.default in (None, "", []) else [override_text(key.default)]
    if key.rules.choices:
        details.append(f"one of {', '.join(key.rules.choices)}")
    return _entry(name, size, f"{key.rules.help} ({'; '.join(details)})" if details else key.rules.help)


def _entry(name: str, size: int, text: str) -> str:
    """Return a name with a text beside it. On a terminal, the text wraps within its column.

    :param size: width of the column of names, in characters.
    """
    head = f"  {name:<{size}} "
    width = max(output_width(), len(head) + MIN_TEXT_WIDTH)
    options: Any = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, width, initial_indent=head, subsequent_indent=" " * len(head), **options)
