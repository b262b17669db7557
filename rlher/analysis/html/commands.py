"""The command that repeats one run, also if the run was part of a Hydra sweep."""

import shlex
from collections.abc import Mapping
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from rlher.analysis.loading import LoadedRun
from rlher.config.override_syntax import literal
from rlher.runs.command_file import first_command

MULTIRUN = ("-m", "--multirun")
WORKER_KEYS = ("workers", "launcher", "ray_address")
OPTION_KEYS = {"algo": ("algo.name",), "engine": ("engine.name",), "env": ("env.name", "env.id")}
"""Config groups, with the keys that may hold the name of the chosen option."""


def single_run_command(run: LoadedRun) -> str:
    """Return the command of a run; of a sweep (``-m``) with the run's own values in place of the swept ones.

    A sweep over a config group whose option is not stored in the run's configuration is returned as it was typed.

    :return: as :func:`rlher.runs.command_file.first_command`.
    """
    return _without_sweep(first_command(run.command), run.config)


def _without_sweep(command: str, config: Mapping[str, Any]) -> str:
    try:
        words = shlex.split(command)
        if not set(MULTIRUN) & set(words):
            return command
        return shlex.join(_run_value(word, config) for word in _without_workers(words) if word not in MULTIRUN)
    except (ValueError, LookupError, StopIteration, HydraException):
        return command


def _without_workers(words: list[str]) -> list[str]:
    """Return the words without those on the workers of the sweep: ``workers=2``, ``--workers=2``, ``--workers 2``."""
    names = [word.lstrip("-").partition("=")[0].replace("-", "_") for word in words]
    before = ["", *(name if "=" not in word else "" for name, word in zip(names, words, strict=True))]
    return [
        word
        for word, name, last in zip(words, names, before, strict=False)
        if name not in WORKER_KEYS and last not in WORKER_KEYS
    ]


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
    chosen = next(str(config[each]) for each in OPTION_KEYS[name] if str(config.get(each)) in options)
    return f"{key}={chosen}"
