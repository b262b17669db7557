"""The command line of `rlher train --resume`: which run is resumed, and which of its keys may change."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlher.cli.flags import her_overrides, parse
from rlher.cli.messages import closest_key, hydra_errors_as_user_errors
from rlher.config.key import experiment, to_object
from rlher.config.training import TrainConfig
from rlher.core.console import command_line
from rlher.core.errors import UserError, first_line
from rlher.core.nested import is_same
from rlher.run import lookup
from rlher.run.run_folder import CONFIG, RunFolder

if TYPE_CHECKING:
    from rlher.training.result import RunResult

LATEST = "latest"


def run(argv: Sequence[str]) -> int:
    """Resume a run and return the exit code, as of `rlher train`.

    :param argv: ``--resume [run]`` and, in any order, overrides of keys that may change.
    :raises UserError: the run does not exist, is finished, is being trained, or another key is changed.
    """
    name, words = _take_resume(list(argv))
    words = parse("train", words).overrides
    where = {each.key_or_group: each.value() for each in _parsed(words) if each.key_or_group in ("logs", "trust_code")}
    logs, trust_code = str(where.get("logs", TrainConfig.logs)), where.get("trust_code") is True
    found = lookup.latest_unfinished(logs, trust_code) if name == LATEST else lookup.find(name, logs, trust_code)
    resumed, result = resume_run(found, words, name)
    from rlher.training.result import print_result

    print_result(resumed, result)
    return result.exit_code


def resume_run(run: RunFolder, words: Sequence[str], name: str) -> "tuple[RunFolder, RunResult]":
    """Resume a run with overrides applied, see :func:`changed_config`.

    :param name: by which the run was found; it is recorded in the command line.
    """
    from rlher.cli.commands.train import WORKER_MODULES
    from rlher.training.processes import start_server_early

    config = changed_config(run, words)
    start_server_early(config, WORKER_MODULES)
    from rlher.training.resume import resume

    return resume(run, config, command_line(["rlher", "train", "--resume", name, *words]))


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
        elif name == LATEST and Path(word, CONFIG).is_file():  # the run after other keys
            name = word
        else:
            words.append(word)
    return name, words


def _parsed(words: Any) -> list[Override]:
    with hydra_errors_as_user_errors():
        return OverridesParser.create().parse_overrides(list(words))


def changed_config(run: RunFolder, words: Sequence[str]) -> TrainConfig:
    """Return a run's config with overrides applied.

    :param words: Hydra's overrides; ``total_timesteps=+N`` means N more than recorded.
    :raises UserError: an override is invalid, or changes a key on which what was learnt depends.
    """
    config = OmegaConf.structured(run.config)
    longer = r"total_timesteps=\+([\d_]+)"
    steps = run.config.total_timesteps
    words = [re.sub(longer, lambda more: f"total_timesteps={steps + int(more[1])}", word) for word in words]
    words = [each for word in words for each in _spelt_out(word)]
    for override in _parsed(words):
        key = override.key_or_group
        if _is_recorded_choice(key, override.value(), run.config):
            continue
        try:
            OmegaConf.update(config, key, override.value())
        except OmegaConfBaseException as error:
            hint = closest_key(key) if isinstance(error, KeyError | AttributeError) else f": {first_line(error)}"
            raise UserError(f"a resumed run cannot take {override.input_line}{hint}.") from error
    changed = to_object(config, TrainConfig)
    recorded, wanted = (experiment(each, "resume") for each in (run.config, changed))
    others = [key for key, value in wanted.items() if not is_same(value, recorded[key])]
    if others:
        found = " and ".join(f"{key}={wanted[key]} (it was trained with {recorded[key]})" for key in others)
        raise UserError(f"{run} cannot be resumed with {found}; start a new run from its weights with init_from={run}.")
    return changed


def _spelt_out(word: str) -> list[str]:
    return her_overrides(word.removeprefix("her=")) if word.startswith("her=") else [word]


def _is_recorded_choice(key: str, value: Any, config: TrainConfig) -> bool:
    """Return whether an override repeats the run's own algorithm or environment: ``algo=dqn``."""
    recorded = {"algo": (config.algo.name, config.algo.model), "env": (config.env.id, config.env.name, "any")}
    return value in recorded.get(key, ())
