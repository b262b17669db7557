"""The command line of `rlher train --resume`: which run is resumed, and which of its keys may change."""

import os
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlher import COMMAND
from rlher.cli.key_suggestions import closest_key
from rlher.cli.overrides import CLASSES, to_hydra
from rlher.config.key import to_object
from rlher.config.training import TrainConfig, keys_ignored_by, run_keys
from rlher.core.console import command_line
from rlher.core.errors import UserError, exit_as_fault, first_line
from rlher.core.nested import flatten, is_same
from rlher.runs import lookup
from rlher.runs.run_folder import Run

LATEST = "latest"
CHANGEABLE = keys_ignored_by("resume")
"""Keys that do not change what is learnt up to a given step, and the callbacks, which are the user's own code."""

TEXT_KEYS = {name for name, item in run_keys().items() if item.type in (str, str | None)}
"""Keys whose values are text."""


def run(argv: Sequence[str]) -> int:
    """Resume a run and return the exit code, as of `rlher train`.

    :param argv: ``--resume [run]`` and, in any order, overrides of :data:`CHANGEABLE` keys.
    :raises UserError: the run does not exist, is finished, is being trained, or another key is changed.
    """
    from rlher.evaluation.worker_count import start_server_early

    name, words = _take_resume(list(argv))
    logs, trust_code = _lookup_options(words)
    found = lookup.latest_unfinished(logs, trust_code) if name == LATEST else lookup.find(name, logs, trust_code)
    os.environ[COMMAND] = command_line(["rlher", "train", *argv])
    with exit_as_fault():
        config = changed_config(found, words)
        start_server_early(config)
        from rlher.training.resume import resume
        from rlher.training.summary import print_result

        resumed, result = resume(found, config)
    print_result(resumed, result)
    return result.exit_code


def _take_resume(argv: list[str]) -> tuple[str, list[str]]:
    """Return the run that ``--resume`` names, by default the latest, and the other words."""
    name, words = LATEST, []
    while argv:
        word = argv.pop(0)
        if word == "--resume":
            if argv and "=" not in argv[0] and not argv[0].startswith("-"):
                name = argv.pop(0)
        elif word.startswith(("--resume=", "resume=")):
            name = word.partition("=")[2] or LATEST
        elif name == LATEST and Path(word, "config.yaml").is_file():  # the run after other keys
            name = word
        else:
            words.append(word)
    return name, words


def _lookup_options(words: Sequence[str]) -> tuple[str, bool]:
    """Return the folder of runs, in which the run is looked up, and whether code that it names may be run."""
    typed = [word for word in to_hydra("train", words) if word.startswith(("logs=", "trust_code="))]
    options: Any = OmegaConf.merge(OmegaConf.structured(TrainConfig), OmegaConf.from_dotlist(typed))
    return options.logs, options.trust_code


def changed_config(run: Run, words: Sequence[str]) -> TrainConfig:
    """Return a run's config with overrides applied.

    :param words: as on the command line; ``total_timesteps=+N`` means N more than recorded.
    :raises UserError: an override is invalid or changes what is learnt.
    """
    typed = [_as_yaml(_absolute_timesteps(word.lstrip("+"), run)) for word in to_hydra("train", list(words))]
    overrides = [word for word in typed if not _is_recorded_choice(word, run.config)]
    for word in overrides:
        _validate_override(word, run.config)
    try:
        merged = OmegaConf.merge(OmegaConf.structured(run.config), OmegaConf.from_dotlist(overrides))
        config = to_object(merged, TrainConfig)
    except (OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise UserError(f"invalid override of a resumed run: {first_line(error)}.") from error
    _require_same_experiment(run, config)
    return config


def _absolute_timesteps(word: str, run: Run) -> str:
    key, _, value = word.partition("=")
    if key != "total_timesteps" or not value.lstrip("+").replace("_", "").isdigit():
        return word
    steps = int(value.lstrip("+").replace("_", ""))
    return f"{key}={run.config.total_timesteps + steps if value.startswith('+') else steps}"


def _as_yaml(word: str) -> str:
    """Return an override for OmegaConf, which reads YAML, without the escapes of Hydra's grammar.

    Text is quoted, because ``on`` and ``off`` are booleans in YAML.
    """
    key, equals, value = word.partition("=")
    if key in CLASSES:
        return word.replace("\\:", ":")
    if key in TEXT_KEYS and equals and value != "null" and not value.startswith(("'", '"')):
        quoted = value.replace("'", "''")
        return f"{key}='{quoted}'"
    return word


def _is_recorded_choice(word: str, config: TrainConfig) -> bool:
    """Return whether a word repeats the run's own algorithm or environment: ``algo=dqn``."""
    key, _, value = word.partition("=")
    recorded = {"algo": (config.algo.name,), "env": (config.env.id, config.env.name, "any")}
    return value in recorded.get(key, ())


def _validate_override(word: str, config: TrainConfig) -> None:
    """Raise UserError if a word chooses from a config group, deletes a key, or names an unknown key."""
    key = word.partition("=")[0]
    if "=" not in word or is_dataclass(getattr(config, key, None)) or key in ("recipe", "preset"):
        raise UserError(f"--resume cannot take {word}; only {', '.join(CHANGEABLE)} may change.")
    if not _has_key(config, key):
        raise UserError(f"there is no key {key!r}{closest_key(key)}.")


def _has_key(config: TrainConfig, key: str) -> bool:
    """Return whether a config has a dotted key; a mapping has any."""
    node: Any = config
    for name in key.split("."):
        if isinstance(node, dict):
            return True
        if not hasattr(node, name):
            return False
        node = getattr(node, name)
    return True


def _require_same_experiment(run: Run, config: TrainConfig) -> None:
    """Raise UserError if a key outside of :data:`CHANGEABLE` differs from the recorded config."""
    recorded, changed = dict(flatten(asdict(run.config))), dict(flatten(asdict(config)))
    differences = [
        f"{key} was {recorded.get(key)!r}, not {changed.get(key)!r}"
        for key in dict.fromkeys([*recorded, *changed])
        if not is_same(recorded.get(key), changed.get(key)) and key not in CHANGEABLE
    ]
    if differences:
        raise UserError(
            f"{run} was trained with other values: {'; '.join(differences)}; "
            f"only {', '.join(CHANGEABLE)} may change. "
            f"Start a new run from its weights with init_from={run}."
        )
