"""The command that repeats one run, also if the run was part of a Hydra sweep or was extended."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from rlher.config.override_syntax import literal
from rlher.config.training import keys_ignored_by, run_keys
from rlher.runs.command_file import first_command, is_resume

MULTIRUN = ("-m", "--multirun")
WORKER_KEYS = ("workers", "launcher", "ray_address")
OPTION_KEYS = {"algo": ("algo.name",), "engine": ("engine.name",), "env": ("env.name", "env.id")}
"""Config groups, with the keys that may hold the name of the chosen option."""
GROUP_FLAG = re.compile(r"(?<= )--(algo|env|her|engine|recipe|preset)[ =]")


def single_run_command(text: str, config: Mapping[str, Any]) -> str:
    """Return the command that starts a run with the values that it had at its end.

    Runs of earlier versions have the command of their sweep (``-m``), in which the run's own values replace the swept
    ones; if it swept a config group whose option is not in the run's configuration, it is returned as it was typed.

    :param text: ``command.txt``.
    :param config: ``config.yaml`` with dotted keys.
    :return: as :func:`rlher.runs.command_file.first_command`.
    """
    command = _without_sweep(first_command(text), config)
    words = shlex.split(command)
    for key in changed_keys(text, config) if command else []:
        override = f"{key}={literal(config[key])}"
        words = [override if word.partition("=")[0] == key else word for word in words]
        words += [override] * (override not in words)
    return shlex.join(words)


def changed_keys(text: str, config: Mapping[str, Any]) -> list[str]:
    """Return the keys of the experiment that were given when a run was resumed, such as ``total_timesteps``.

    :param text: ``command.txt``.
    :param config: ``config.yaml`` with dotted keys.
    """
    first, typed = first_command(text), []
    for line in text.splitlines():
        words = shlex.split(command) if (command := first_command(line)) != first else []
        if is_resume(words):
            typed += [_key(word) for word in words]
    keys = run_keys()
    changeable = [key for key in keys_ignored_by("resume") if keys[key].metadata["affects"] == "experiment"]
    return [key for key in dict.fromkeys(typed) if key in changeable and key in config]


def resume_note(text: str, config: Mapping[str, Any]) -> str:
    """Return what an extended run has in common with one of :func:`single_run_command`; empty if it was not extended.

    Parameters as of :func:`changed_keys`.
    """
    given = [f"{key}={literal(config[key])}" for key in changed_keys(text, config)]
    if not given:
        return ""
    return (
        f"The run was resumed with {' '.join(given)}, which the command sets from the start: what depends on the share "
        "of the run that is done, such as a schedule of the learning rate or of exploration, may differ."
    )


def _run_value(word: str, config: Mapping[str, Any]) -> str:
    """Return an override with the run's value in place of a sweep; any other word unchanged.

    :raises LookupError: the configuration does not hold the value.
    """
    key, equals, _ = word.partition("=")
    if not equals or key.startswith("-"):
        return word
    override = OverridesParser.create().parse_override(word)
    if not override.is_sweep_override():
        return word
    name = override.key_or_group
    if name in config:
        return f"{key}={literal(config[name])}"
    options = {str(option) for option in override.sweep_iterator()}
    chosen = [str(config[each]) for each in OPTION_KEYS[name] if str(config.get(each)) in options]
    return f"{key}={chosen[0]}"


def _without_sweep(command: str, config: Mapping[str, Any]) -> str:
    try:
        words = shlex.split(GROUP_FLAG.sub(r"\1=", command))
        if not set(MULTIRUN) & set(words):
            return command
        return shlex.join(_run_value(word, config) for word in _without_workers(words) if word not in MULTIRUN)
    except (ValueError, LookupError, HydraException):
        return command


def _without_workers(words: Sequence[str]) -> list[str]:
    """Return the words without those on the workers of the sweep: ``workers=2``, ``--workers=2``, ``--workers 2``."""
    before = ["", *("" if "=" in word else _key(word) for word in words)]
    return [
        word
        for word, last in zip(words, before, strict=False)
        if _key(word) not in WORKER_KEYS and last not in WORKER_KEYS
    ]


def _key(word: str) -> str:
    """Return the key that a word sets: ``total_timesteps`` for ``total_timesteps=9`` and ``--total-timesteps``."""
    return word.lstrip("-+").partition("=")[0].replace("-", "_")
