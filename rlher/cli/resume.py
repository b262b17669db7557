"""The command line of `rlher train --resume`: which run is resumed, and which of its keys may change."""

import re
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from rlher.cli.command import load_command
from rlher.cli.commands import train
from rlher.cli.flags import LATEST
from rlher.cli.overrides import assign, config_values
from rlher.config.key import to_object
from rlher.config.training import TrainConfig
from rlher.run import lookup
from rlher.run.run_folder import RunFolder


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


def changed_config(run: RunFolder, overrides: Mapping[str, Any]) -> TrainConfig:
    """Return a run's config with overrides applied.

    :param overrides: values by key; the text ``+N`` for ``total_timesteps`` means N more than recorded.
    :raises UserError: an override is invalid.
    """
    config = OmegaConf.structured(run.config)
    env = run.config.env
    values = config_values(overrides)
    if more := re.fullmatch(r"\+\d{1,18}", str(values.get("total_timesteps")).replace("_", "")):
        values["total_timesteps"] = run.config.total_timesteps + int(more[0])
    if values.get("env") in (env.id, env.name):
        del values["env"]
    names = {"algo": "algo.name", "env": "env.id"}
    values = {names.get(key, key): value for key, value in values.items()}
    keys = load_command("train").keys({"algo": run.config.algo.name, "env": env.id})
    assign(config, values, keys, "a resumed run has no key")
    return to_object(config)
