"""The command line of `rlher train --resume`: which run, and which keys may change."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlher import COMMAND
from rlher.cli import overrides
from rlher.config.key import to_object
from rlher.config.training import TrainConfig
from rlher.core.console import command_line
from rlher.core.errors import UserError
from rlher.runs import run_folder
from rlher.runs.run_folder import Run
from rlher.training.resume import resume
from rlher.training.summary import print_result

LATEST = "latest"
MAY_CHANGE = (
    "total_timesteps",
    "progress",
    "tensorboard",
    "logger",
    "record",
    "json",
    "eval.final_episodes",
    "eval.keep_models",
    "checkpoint",
)
"""Keys, and sections, that do not bear on what is learnt up to a given step."""
CHANGEABLE = ", ".join(MAY_CHANGE)
GROUPS: dict[str, Callable[[TrainConfig], tuple[str, ...]]] = {
    "algo": lambda config: (config.algo.name,),
    "env": lambda config: (config.env.id, config.env.name),
}
"""What may be typed again, and the names under which it is the same."""


def main(argv: Sequence[str]) -> int:
    """Go on with a run.

    :param argv: ``--resume [run]`` and, in any order, overrides of what may change.
    :return: exit code, as of ``rlher train``.
    :raises UserError: no such run, it is finished, is being trained, or other keys were changed.
    """
    name, words = _split(list(argv))
    where, words = _where(words)
    run = run_folder.latest_unfinished(where) if name == LATEST else run_folder.find(name, where)
    os.environ[COMMAND] = command_line(["rlher", "train", *argv])
    run, result = resume(run, changed(run, words))
    print_result(run, result)
    return result.exit_code


def _split(argv: list[str]) -> tuple[str, list[str]]:
    """Take ``--resume`` and its run out of a command line; without one it is the newest."""
    name, words = LATEST, []
    while argv:
        word = argv.pop(0)
        if word == "--resume":
            if argv and "=" not in argv[0] and not argv[0].startswith("-"):
                name = argv.pop(0)
        elif word.startswith(("--resume=", "resume=")):
            name = word.partition("=")[2] or LATEST
        else:
            words.append(word)
    return name, words


def _where(words: list[str]) -> tuple[str, list[str]]:
    """Take the folder of runs out of the overrides: it says where to look, and a folder may have been moved."""
    logs = [word for word in words if word.lstrip("-").startswith("logs=")]
    return (logs[-1].partition("=")[2] if logs else "logs"), [word for word in words if word not in logs]


def changed(run: Run, words: Sequence[str]) -> TrainConfig:
    """Return a run's config with overrides applied.

    :param words: as on the command line; ``total_timesteps=+N`` means N more than it had.
    :raises UserError: one changes what was learnt with, or cannot be read.
    """
    typed = [_more(word.lstrip("+"), run) for word in overrides.to_hydra("train", list(words))]
    keys = []
    for word in typed:
        key, _, value = word.partition("=")
        if key in GROUPS and value in (*GROUPS[key](run.config), "any"):
            continue
        if "=" not in word or is_dataclass(getattr(run.config, key, None)) or key == "tuned":
            raise UserError(f"--resume cannot take {word}: a run goes on as it was. Only {CHANGEABLE} may change.")
        if not _has(run.config, key):
            raise UserError(f"there is no key {key!r}{overrides.closest_key(key)}.")
        keys.append(word)
    try:
        merged = OmegaConf.merge(OmegaConf.structured(run.config), OmegaConf.from_dotlist(keys))
        config = to_object(merged, TrainConfig)
    except (OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise UserError(f"--resume cannot take this: {str(error).splitlines()[0]}.") from error
    other = [
        f"{key} is {old!r} there, not {new!r}"
        for key, old, new in _differences(asdict(run.config), asdict(config))
        if key not in MAY_CHANGE and key.split(".")[0] not in MAY_CHANGE
    ]
    if other:
        raise UserError(
            f"{run.folder} is another experiment: {'; '.join(other)}. Only {CHANGEABLE} may change in a run "
            f"that is resumed; a new run begins from its weights with init_from={run.folder}."
        )
    return config


def _has(config: TrainConfig, key: str) -> bool:
    """Tell whether a config has a dotted key; mappings have any."""
    node: Any = config
    for name in key.split("."):
        if isinstance(node, dict):
            return True
        if not hasattr(node, name):
            return False
        node = getattr(node, name)
    return True


def _more(word: str, run: Run) -> str:
    key, _, value = word.partition("=")
    if key != "total_timesteps" or not value.lstrip("+").replace("_", "").isdigit():
        return word
    steps = int(value.lstrip("+").replace("_", ""))
    return f"{key}={run.config.total_timesteps + steps if value.startswith('+') else steps}"


def _differences(one: dict[str, Any], two: dict[str, Any], prefix: str = "") -> list[tuple[str, Any, Any]]:
    found = []
    for name, value in one.items():
        if isinstance(value, dict) and isinstance(two[name], dict) and value.keys() == two[name].keys():
            found += _differences(value, two[name], f"{prefix}{name}.")
        elif value != two[name]:
            found.append((prefix + name, value, two[name]))
    return found
