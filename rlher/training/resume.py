"""Resume a run that was killed or interrupted, or extend a finished one."""

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlher.config.assignment import set_values
from rlher.config.key import changed_values, param_values, validate
from rlher.config.overrides import expand_overrides
from rlher.config.training import ResumeConfig, RunConfig, values_kept_on_resume
from rlher.config.trust import trusts_code
from rlher.core import fork_server
from rlher.core.errors import UserError
from rlher.core.reading import finite_float, require_safe_to_write
from rlher.core.writing import remove_unfinished, write_json, write_text
from rlher.run import lookup, run_folder
from rlher.run.result import RunResult
from rlher.run.run_folder import (
    CHECKPOINTS_FOLDER,
    COMMAND_FILE,
    CONFIG_FILE,
    METADATA_FILE,
    RunFolder,
    read_commands,
    read_metadata,
    read_result,
)
from rlher.training import checkpoint_folder
from rlher.training.messages import print_header


def resume_config(overrides: Mapping[str, Any]) -> ResumeConfig:
    """Return the config with which a run is resumed.

    :param overrides: values by key; ``run`` names the run, by default the newest unfinished one.
    :raises UserError: there is no such run, its code is not trusted, or an override is invalid.
    """
    values = expand_overrides(overrides)
    logs = str(values.get("logs", RunConfig.logs))
    folder = values.pop("run", None) or lookup.newest_unfinished(Path(logs))
    run = lookup.open_run(str(folder) if folder else None, logs, trusts_code(values))
    config = ResumeConfig(**vars(run.config), run=str(run.folder))
    if values.get("env") in (config.env.id, config.env.name):
        del values["env"]
    keys = {"algo": "algo.name", "env": "env.id"}
    set_values(config, {keys.get(key, key): value for key, value in values.items()})
    config.total_timesteps += config.more_timesteps
    validate(config)
    return config


def resume_run(config: ResumeConfig, command_line: str, lock_timeout: float = 0) -> tuple[RunFolder, RunResult]:
    """Continue a run in its folder from its newest checkpoint, or from its beginning if it has none.

    :param config: with the run's folder and its own keys, some of them changed; code that it names is trusted.
    :param command_line: the command line, for the run folder.
    :param lock_timeout: seconds to wait for another process that is training the run.
    :return: the run with its new config, and its result.
    :raises UserError: it is finished, is being trained by another process, a key on which what was learnt depends was
        changed, or its checkpoint cannot be loaded.
    """
    fork_server.start_for_run(config.threads)
    from rlher.training.preparation import prepare
    from rlher.training.trainer import Trainer

    folder, new_config = Path(str(config.run)), config.for_run()
    with run_folder.locked(folder, lock_timeout):
        recorded = RunFolder(folder, run_folder.read_config(folder))
        for path in folder.iterdir():
            if not path.is_dir():
                require_safe_to_write(path)
        remove_unfinished(folder)
        checkpoint = checkpoint_folder.newest(folder / CHECKPOINTS_FOLDER)
        done = checkpoint_folder.timesteps_of(checkpoint) if checkpoint else 0
        start_note = f"resumed at {done:,} of {new_config.total_timesteps:,} steps"
        if checkpoint is None:
            start_note = "no checkpoint; training starts from step 0"
        _require_allowed_changes(recorded, new_config, checkpoint)
        _require_steps_left(recorded, new_config.total_timesteps, done, checkpoint)
        with prepare(new_config, is_resumed=checkpoint is not None) as setup:
            run = RunFolder(folder, setup.config)
            print_header(run, [start_note, *setup.notes])  # the actions of the checkpoint may take a minute
            trainer = Trainer(run, setup, checkpoint)
            # Nothing is written before, because this may fail.
            _record_resume(run, done, command_line)
            return run, trainer.train()


def _require_allowed_changes(run: RunFolder, new_config: RunConfig, checkpoint: Path | None) -> None:
    """Raise UserError if a key that may not change has another value than when the run was trained.

    :param new_config: config to train. ``run.config`` is read from ``config.yaml``, which the user may have edited.
    """
    values, defaults, recorded = map(values_kept_on_resume, (new_config, run.config.defaults(), run.config))
    if checkpoint is not None:
        with contextlib.suppress(Exception):  # a damaged file raises many kinds; restoring it says so
            recorded = dict(checkpoint_folder.read_state(checkpoint)["config"])
    changes = [
        f"{key.removesuffix('.name')}={value} (it was trained with {before})"
        for key, (before, value) in changed_values(recorded, values, defaults).items()
    ]
    if changes:
        restore = f"set them back, on the command line or in {run.folder / CONFIG_FILE}"
        advice = f"{restore}, or start a new run from its weights with {run.init_from_override()}"
        raise UserError(f"{run} cannot be resumed with {' and '.join(changes)}; {advice}.")


def _require_steps_left(run: RunFolder, total: int, done: int, checkpoint: Path | None) -> None:
    """Raise UserError if no steps are left to do, or a finished run has no checkpoint.

    :param total: ``total_timesteps`` with which it is resumed; ``run.config`` has the earlier one.
    :param done: steps of the checkpoint from which it is resumed; 0 without one.
    """
    last_step = run.config.total_timesteps
    finished = lookup.is_finished(run.folder)
    if finished and (taken := finite_float(read_result(run.folder).get("timesteps"))):
        last_step = min(last_step, int(taken))  # a callback may have ended it earlier
    if finished and total <= last_step:
        raise UserError(
            f"{run} is finished, with {last_step:,} steps; to train for as many more, resume it with "
            f"more_timesteps={last_step}."
        )
    if total < min(done, last_step):  # the last step of several environments may have passed total_timesteps
        raise UserError(f"total_timesteps={total} is too small: {run} is at {done:,} steps already; use a larger one.")
    if finished and checkpoint is None:
        raise UserError(f"{run} is finished and has no checkpoint; start a new run with {run.init_from_override()}.")


def _record_resume(run: RunFolder, done: int, command_line: str) -> None:
    """Write config, command and time of the resume into the run folder."""
    run.write_config()
    write_text(run.folder / COMMAND_FILE, f"{read_commands(run.folder)}{command_line}\n")
    meta = read_metadata(run.folder)
    before = meta.get("resumed")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    # Parameters that may change get their new values. The others keep the values of the first start, such as null or
    # auto; the config holds the resolved ones.
    fixed = values_kept_on_resume(run.config)
    changeable = {key: value for key, value in param_values(run.config).items() if key not in fixed}
    resumes = list(before) if isinstance(before, list) else []
    meta["experiment"] = {**(meta.get("experiment") or {}), **changeable}
    meta["resumed"] = [*resumes, {"at": now, "timesteps": done}]
    write_json(run.folder / METADATA_FILE, meta)
