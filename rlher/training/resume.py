"""Resume a run that was killed or stopped, or extend a finished one."""

import os
import time
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from rlher import COMMAND
from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.core.files import read_json, read_text, write_json, write_text
from rlher.runs import run_folder
from rlher.runs.checkpoint_store import timesteps_of
from rlher.runs.run_folder import Run
from rlher.runs.untrusted import require_no_way_out
from rlher.training.callbacks.checkpoint import newest_valid
from rlher.training.summary import announce
from rlher.training.trainer import learn, prepare


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
