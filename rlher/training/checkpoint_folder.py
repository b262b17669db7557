"""What a checkpoint holds: files that are written atomically.

``<run>/checkpoints/000012000/`` is what a run resumes from. It is written beside its place and renamed. Nothing in it
is pickled. All large files are zip files, which have checksums.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlher.core.reading import MAX_TABLE_BYTES, require_regular_file
from rlher.core.writing import sync
from rlher.run.run_folder import MODEL_FILES

MODEL_FILE = "model.zip"
"""A model file: networks with the statistics of the observations, optimizers, entropy coefficient."""
BEST_MODEL_FILE = MODEL_FILES["best"]
"""The best model so far, if there is one."""
BUFFER_FILE = "replay_buffer.npz"
"""The replay buffer, see :mod:`rlher.her.saving`."""
ENV_ACTIONS_FILE = "env_actions.npz"
"""The actions since the environments were built, and the observations after them."""
STATE_FILE = "state.json"
"""Counters, random number generators, the evaluations so far, and the values of the config keys that may not change."""
KEPT_CHECKPOINTS = 2
"""Checkpoints of a run that are kept. If the disk damaged the newest one, the user can resume from the one before."""


@contextlib.contextmanager
def new_checkpoint(parent: Path, timesteps: int) -> Iterator[Path]:
    """Yield an empty folder, and make a checkpoint of what the block writes into it, unless the block raises.

    All but the newest :data:`KEPT_CHECKPOINTS` are deleted.

    :param timesteps: environment steps done; the checkpoint is named after them.
    :raises OSError: it cannot be written; earlier checkpoints are unchanged.
    """
    for unfinished in parent.glob(".*.new"):  # left by a run that was killed while it wrote
        shutil.rmtree(unfinished, ignore_errors=True)
    path = parent / f"{timesteps:09d}"
    temporary = parent / f".{path.name}.new"
    try:
        parent.mkdir(exist_ok=True)  # not its parents: a run folder that was moved away is not made again
        temporary.mkdir()
        yield temporary
        for file in (*temporary.iterdir(), temporary):
            sync(file)
        if path.exists():
            shutil.rmtree(path)
        temporary.rename(path)
        sync(parent)
        sync(parent.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in newest_first(parent)[KEPT_CHECKPOINTS:]:
        shutil.rmtree(old, ignore_errors=True)


def newest_first(parent: Path) -> list[Path]:
    """Return the checkpoints of a run, newest first."""
    checkpoints = (path for path in parent.glob("*") if path.is_dir() and path.name.isdecimal())
    return sorted(checkpoints, key=timesteps_of, reverse=True)


def newest(parent: Path) -> Path | None:
    """Return the newest checkpoint of a run, or None if there is none."""
    return next(iter(newest_first(parent)), None)


def timesteps_of(folder: Path) -> int:
    """Return the environment steps done at a checkpoint."""
    return int(folder.name)


def read_state(folder: Path) -> dict[str, Any]:
    """Return the unchecked content of a checkpoint's :data:`STATE_FILE`.

    :raises OSError, ValueError: the file cannot be read, or is damaged.
    """
    file = folder / STATE_FILE
    require_regular_file(file, MAX_TABLE_BYTES)
    return dict(json.loads(file.read_text()))
