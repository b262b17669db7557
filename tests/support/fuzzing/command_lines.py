"""Random command lines, most of them invalid, composed without running the command."""

import contextlib
import functools
from pathlib import Path
from random import Random
from unittest import mock

from rlher.cli.commands import COMMANDS, Command
from rlher.cli.main import main
from rlher.config.key import keys_of
from tests.support.fuzzing.checks import Violation, file_states, run_checked

SYMBOLS = "= ' \" \\ [ ] { } ( ) ${ ${x} ${oc.env:HOME} ${env.id} ??? ~ + ++ @ : , ; $ %s .. / é 日本 💥 a=b=c \\'"
VALUES = "null true nan inf -inf 1e400 1e-400 -1 0 1_000 0x1f range(1,3) choice(a,b) glob(*) sort(3,1) int(3)"
LONG = ("9" * 500, "[" * 300, "{a:" * 200, "x" * 5000)
TEXTS = (*SYMBOLS.split(), *VALUES.split(), *LONG, "", " ", "\n", "\x1b[31m", "\u202e", "\udcff")
CONFIG_GROUPS = ("algo", "env", "her", "recipe", "space", "algo.tau", "env.kwargs.n_bits")


def random_command_line(rng: Random) -> list[str]:
    """Return a command with random arguments."""
    name = rng.choice([*COMMANDS])
    keys = [*keys_of(COMMANDS[name].schema), *CONFIG_GROUPS]
    words = []
    for _ in range(rng.randint(1, 4)):
        key = rng.choice(keys) if rng.random() < 0.8 else _random_text(rng)
        value = _random_text(rng) if rng.random() < 0.8 else rng.choice(("dqn", "sac", "BitFlipping-v0", "her", "sb3"))
        flag = "--" + key.replace("_", "-").replace(".", "-")
        kinds = (f"{key}={value}", f"+{key}={value}", f"++{key}={value}", f"~{key}", f"~{key}={value}", key, value)
        words += rng.choice(([rng.choice(kinds)], [rng.choice(kinds)], [flag, value], [f"{flag}={value}"], [flag]))
    if rng.random() < 0.2:
        text = _random_text(rng)
        words += rng.choice((["--cfg", "job"], ["-m"], ["--cfg", text], ["--env", text], ["-h"], ["-p", "x"]))
    return [name, *words]


def _random_text(rng: Random) -> str:
    return "".join(rng.choice(TEXTS) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def _without_work(command: Command) -> Command:
    """Return a command that composes its config and does nothing with it."""
    return Command(command.name, functools.wraps(command.function)(lambda *arguments: 0), command.schema)


def compose(words: list[str], folder: Path) -> str:
    """Compose the config of a command line in a folder without running the command, and return what is printed.

    :raises Violation: it ends badly, or a file in the folder was changed.
    """
    before = file_states(folder)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(mock.patch.dict(COMMANDS, {name: _without_work(each) for name, each in COMMANDS.items()}))
        printed = run_checked(lambda: main(words), f"rlher {words}")
    if file_states(folder) != before:
        raise Violation(f"rlher {words}: a file was changed")
    return printed
