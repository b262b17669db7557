"""The command line of `rlher train --resume`: which run is resumed, and which of its keys may change."""

import re
from collections.abc import Sequence

from omegaconf import OmegaConf

from rlher.cli.command import load_command
from rlher.cli.commands import train
from rlher.cli.flags import LATEST
from rlher.cli.overrides import assign, parse_overrides
from rlher.config.key import compared_values, to_object
from rlher.config.training import TrainConfig
from rlher.core.console import command_line
from rlher.core.errors import UserError
from rlher.run import lookup
from rlher.run.run_folder import RunFolder


def run(words: Sequence[str]) -> int:
    """Resume a run and return the exit code, as of `rlher train`.

    :param words: overrides: ``resume=<run>``, and keys that may change.
    :raises UserError: the run does not exist, is finished, is being trained, or another key is changed.
    """
    values = parse_overrides(words)
    name = str(values["resume"] or LATEST)
    logs = str(values.get("logs", TrainConfig.logs))
    trust_code = values.get("trust_code") is True
    changes = [word for word in words if not word.startswith("resume=")]
    resumed = lookup.run_to_resume(logs, trust_code) if name == LATEST else lookup.open_run(name, logs, trust_code)
    command = command_line(["rlher", "train", "--resume", name, *changes])
    return train.run(changed_config(resumed, changes), command, resumed)


def changed_config(run: RunFolder, words: Sequence[str]) -> TrainConfig:
    """Return a run's config with overrides applied.

    :param words: Hydra's overrides; ``total_timesteps=+N`` means N more than recorded.
    :raises UserError: an override is invalid, or changes a key on which what was learnt depends.
    """
    config = OmegaConf.structured(run.config)
    env = run.config.env
    steps = run.config.total_timesteps
    longer = r"total_timesteps='?\+([\d_]+)'?"
    words = [re.sub(longer, lambda more: f"total_timesteps={steps + int(more[1])}", word) for word in words]
    values = parse_overrides(words)
    if values.get("env") in (env.id, env.name):
        del values["env"]
    names = {"algo": "algo.name", "env": "env.id"}
    values = {names.get(key, key): value for key, value in values.items()}
    keys = load_command("train").keys({"algo": run.config.algo.name, "env": env.id})
    assign(config, values, keys, "a resumed run has no key")
    changed = to_object(config)
    recorded = compared_values(run.config, "resume")
    changes = [
        f"{key.removesuffix('.name')}={value} (it was trained with {recorded[key]})"
        for key, value in compared_values(changed, "resume").items()
        if value != recorded[key]
    ]
    if changes:
        advice = f"start a new run from its weights with {run.init_from_override()}"
        raise UserError(f"{run} cannot be resumed with {' and '.join(changes)}; {advice}.")
    return changed
