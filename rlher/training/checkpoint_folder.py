"""What a checkpoint holds: files that are written atomically, with a checksum of every file.

``<run>/checkpoints/000012000/`` is what a run resumes from. It is written beside its place and renamed. Nothing in it
is pickled.
"""

import contextlib
import hashlib
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

from rlher.core.console import warn
from rlher.core.errors import DamagedFile, as_read_error, first_line
from rlher.core.reading import MAX_TABLE_BYTES, require_regular_file
from rlher.core.writing import sync, write_json
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
MANIFEST_FILE = "checkpoint.json"
"""The checksums."""

KEPT_CHECKPOINTS = 2
"""Checkpoints of a run that are kept: if the newest is damaged, the one before is resumed from."""


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
        sums = {file.name: _digest(file) for file in sorted(temporary.iterdir())}
        write_json(temporary / MANIFEST_FILE, {"sha256": sums})
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


def timesteps_of(folder: Path) -> int:
    """Return the environment steps done at a checkpoint."""
    return int(folder.name)


def verify(folder: Path) -> None:
    """Compare every file of a checkpoint with its checksum.

    :raises DamagedFile: a file is missing, changed or not a regular file, or the manifest cannot be read.
    :raises UserError: the disk does not answer, or reading is not permitted.
    """
    with as_read_error(folder):
        for file in folder.iterdir():
            require_regular_file(file, MAX_TABLE_BYTES if file.suffix == ".json" else math.inf)
        sums: dict[str, str] = json.loads((folder / MANIFEST_FILE).read_text())["sha256"]
        for name, digest in sums.items():
            file = folder / Path(name).name  # a forged manifest may name any path
            if _digest(file) != digest:
                raise DamagedFile(file, "it has changed since it was written")


def newest_valid(folder: Path) -> Path | None:
    """Return the newest checkpoint whose checksums match, if any; rename newer ones, and warn of each.

    :raises UserError: a checkpoint cannot be read now; it may be intact, so it is not renamed.
    """
    for checkpoint in newest_first(folder):
        try:
            verify(checkpoint)
        except DamagedFile as error:
            aside = checkpoint.with_name(f"{checkpoint.name}.damaged")
            shutil.rmtree(aside, ignore_errors=True)  # of an earlier resume
            with contextlib.suppress(OSError):
                checkpoint.rename(aside)
            outcome = "cannot be renamed" if checkpoint.exists() else f"was renamed to {aside.name}"
            warn(f"{first_line(error)}; the checkpoint {outcome}.")
        else:
            return checkpoint
    return None


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
