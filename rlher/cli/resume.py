"""The command line of `rlher train --resume`: which run is resumed."""

from collections.abc import Mapping
from typing import Any

from rlher.cli.commands import train
from rlher.cli.flags import LATEST
from rlher.composition.compose import changed_config
from rlher.config.training import TrainConfig
from rlher.run import lookup


def run(overrides: Mapping[str, Any], command: str) -> int:
    """Resume a run and return the exit code, as of `rlher train`.

    :param overrides: ``resume``, which names the run, and keys that may change, with their values.
    :param command: the command line, for the run folder.
    :raises UserError: the run does not exist, is finished, is being trained, or another key is changed.
    """
    changes = dict(overrides)
    name = str(changes.pop("resume") or LATEST)
    logs = str(changes.get("logs", TrainConfig.logs))
    trust_code = changes.get("trust_code") is True
    resumed = lookup.run_to_resume(logs, trust_code) if name == LATEST else lookup.open_run(name, logs, trust_code)
    return train.run(changed_config(resumed, changes), command, resumed)
