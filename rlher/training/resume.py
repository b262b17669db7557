"""`rlher train --resume <run>`: go on with a run that was killed, stopped, or is to be longer."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass, replace
from datetime import datetime, timezone
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlher import COMMAND
from rlher.cli import overrides
from rlher.core.errors import UserError, command_line
from rlher.core.files import read_json, read_text, write_json, write_text
from rlher.core.schema import TrainConfig, to_object
from rlher.runs import run_folder
from rlher.runs.checkpoint_store import timesteps_of
from rlher.runs.run_folder import Run
from rlher.runs.untrusted import require_no_way_out
from rlher.training.callbacks.checkpoint import newest_valid
from rlher.training.summary import announce, report
from rlher.training.trainer import learn, prepare

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
    return report(*resume(run, changed(run, words)))


def resume(run: Run, config: TrainConfig) -> tuple[Run, dict[str, Any]]:
    """Train on in the folder of a run, from its newest checkpoint that is whole.

    :param config: the run's own, but for what may change.
    :return: the run and its result.
    :raises UserError: it is finished, or being trained by another process.
    """
    started = time.monotonic()
    with run_folder.locked(run.folder):
        require_no_way_out(run.folder)
        checkpoint, said = newest_valid(run.checkpoints)
        done = timesteps_of(checkpoint) if checkpoint else 0
        _require_rest(run, config, done, said)
        with prepare(replace(config, init_from=None if checkpoint else config.init_from)) as ready:
            run = Run(run.folder, replace(config, threads=ready.config.threads, checkpoint=ready.config.checkpoint))
            _note(run, done)
            where = f"resumed at {done:,} of {config.total_timesteps:,} steps"
            nothing = f"there is no checkpoint {'that is whole' if said else 'yet'}, so it begins again"
            announce(run, [where if checkpoint else nothing, *said, *ready.notes])
            return run, learn(run, ready, started, since=checkpoint)


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


def _require_rest(run: Run, config: TrainConfig, done: int, said: list[str]) -> None:
    """Refuse to go on where there is nothing to do, or a finished run's checkpoints are ``said`` to be damaged."""
    over = read_json(run.folder / "result.json").get("status") == "finished"
    if over and config.total_timesteps <= run.config.total_timesteps:
        raise UserError(
            f"{run.folder} is finished, with {run.config.total_timesteps:,} steps. For as many more: "
            f"`rlher train --resume {run.folder} total_timesteps=+{run.config.total_timesteps}`."
        )
    if config.total_timesteps < min(done, run.config.total_timesteps):  # the last step may have gone past the end
        raise UserError(f"{run.folder} is at {done:,} steps already: total_timesteps={config.total_timesteps} is less.")
    if over and not done:
        why = " ".join(said) or "It has none (checkpoint.every=null)."
        raise UserError(f"{run.folder} is finished, and there is no checkpoint to go on from. {why}")


def _note(run: Run, done: int) -> None:
    """Write down that, when and how the run was gone on with; its old result no longer holds."""
    (run.folder / "result.json").unlink(missing_ok=True)
    run_folder.write_config(run)
    commands = run.folder / "command.txt"
    write_text(commands, read_text(commands) + os.environ.get(COMMAND, "") + "\n")
    meta = read_json(run.folder / "meta.json")
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    before = meta.get("resumed")
    meta["resumed"] = [*(before if isinstance(before, list) else []), {"at": now, "timesteps": done}]
    write_json(run.folder / "meta.json", meta)
