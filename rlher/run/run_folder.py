"""The run folder: the files of one training run, its number, and the lock of a running training.

``logs/<algo>/<env>_<n>/`` holds ``config.yaml`` (resolved), ``command.txt``, ``meta.json``, ``evaluations.csv``,
``result.json``, ``best_model.zip``, ``last_model.zip``, ``checkpoints/``, and SB3's ``progress.csv`` and TensorBoard
files. ``eval.keep_models`` adds ``models/<steps>.zip``, and ``record`` adds ``clips/<steps>.mp4``.
"""

import fcntl
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlher.config.algorithms import ALGORITHMS, OffPolicyConfig
from rlher.config.assignment import set_value, set_values
from rlher.config.key import flatten_sections, param_values, validate
from rlher.config.training import RunConfig
from rlher.config.trust import sign
from rlher.core.errors import DamagedFile, UserError, as_read_error, first_line
from rlher.core.reading import dump_yaml, read_json_or_empty, read_text_or_empty, read_yaml
from rlher.core.writing import as_write_error, display_path, write_json, write_text
from rlher.run.metadata import describe_run

CONFIG_FILE = "config.yaml"
"""The config of a run: written in full and signed, read back and validated against the schema."""
COMMAND_FILE = "command.txt"
"""Command lines: the first line started the run, and each further line resumed it."""
METADATA_FILE = "meta.json"
"""How the run was made: versions, commit and machine."""
RESULT_FILE = "result.json"
"""The final evaluation and the run's status."""
TRAINING_LOG_FILE = "progress.csv"
"""SB3's log of training."""
CHECKPOINTS_FOLDER = "checkpoints"
"""Folder of the checkpoints, see :mod:`rlher.training.checkpoint_folder`."""
MODEL_FILES = {"best": "best_model.zip", "last": "last_model.zip"}
"""Model files by the values of ``model=``."""


class RunFolder:
    """The folder of a training run, and the run's config.

    :param folder: path of the folder. It is made absolute, because an environment may change the current folder.
    """

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder = folder.absolute()
        self.config = config

    def __str__(self) -> str:
        return str(display_path(self.folder))

    def init_from_override(self) -> str:
        """Return the override with which a new run starts from the weights of this run."""
        return shlex.join([f"init_from={self}"])

    def model_path(self, which: str) -> Path:
        """Return the path of the ``"best"`` or ``"last"`` model, or of the model after a number of steps."""
        return self.folder / MODEL_FILES.get(which, f"models/{which}.zip")

    def resolve_model_name(self, name: str) -> str:
        """Return the model that ``model=`` names, for :meth:`model_path`.

        :param name: ``"best"``, ``"last"``, a number of steps, or ``"auto"``. ``"auto"`` is the best model, or the last
            model if there is no best model.
        :raises UserError: the name is none of these, or there is no model after that number of steps.
        """
        if name == "auto":
            return next((model for model in MODEL_FILES if self.model_path(model).exists()), "best")
        kept = sorted((path.stem for path in self.folder.glob("models/*.zip") if path.stem.isdecimal()), key=int)
        if name in (*MODEL_FILES, *kept):
            return name
        steps = f"one of {', '.join(kept)}" if kept else "train with eval.keep_models=true"
        raise UserError(f"{self} has no model {name!r}; use best or last, or {steps}.")

    def write_config(self) -> None:
        """Write ``config.yaml`` and sign it."""
        write_text(self.folder / CONFIG_FILE, sign(dump_yaml(asdict(self.config)), self.folder))


def read_config(folder: Path) -> RunConfig:
    """Return the config in a run folder. The config may name code that is not trusted.

    :raises FileNotFoundError: the folder has no ``config.yaml``.
    :raises UserError: the operating system cannot read the file.
    :raises DamagedFile: the config does not fit the schema.
    """
    config, other_values = read_unvalidated_config(folder)
    if (algo := config.algo.name) not in ALGORITHMS:
        raise UserError(
            f"{folder / CONFIG_FILE} needs algo={algo}, which is not installed; install the package that has it."
        )
    try:
        set_values(config, other_values)  # raises a UserError that names the first invalid key
        validate(config)
    except UserError as error:
        raise DamagedFile(folder / CONFIG_FILE, first_line(error)) from None
    return config


def read_unvalidated_config(folder: Path) -> tuple[RunConfig, dict[str, Any]]:
    """Return the config in a run folder, without validation, and the values that do not fit the schema.

    :return: the config, and by dotted key the values of unknown keys and the values of another type.
    :raises FileNotFoundError, UserError, DamagedFile: as in :func:`read_config`, but not for values that do not fit.
    """
    path = folder / CONFIG_FILE
    with as_read_error(path, FileNotFoundError):
        values = read_yaml(path)
        if not {"algo", "env"} <= values.keys():
            raise ValueError("it has no sections algo and env")
        algorithm = ALGORITHMS.get(values["algo"]["name"])
        config = RunConfig(algo=algorithm.config() if algorithm else OffPolicyConfig())
        other_values = {}
        for key, value in flatten_sections(config, values):
            try:
                set_value(config, key, value)
            except UserError:
                other_values[key] = value
    return config, other_values


def read_result(folder: Path) -> dict[str, Any]:
    """Return the unchecked content of ``result.json``, empty while the run is trained."""
    return read_json_or_empty(folder / RESULT_FILE)


def read_metadata(folder: Path) -> dict[str, Any]:
    """Return the unchecked content of ``meta.json``."""
    return read_json_or_empty(folder / METADATA_FILE)


def read_commands(folder: Path) -> str:
    """Return the content of ``command.txt``: the command line that started the run, and a line for each resume."""
    return read_text_or_empty(folder / COMMAND_FILE)


def create(resolved: RunConfig, config: RunConfig, command_line: str) -> RunFolder:
    """Create the folder of a new run with ``config.yaml``, ``command.txt`` and ``meta.json``.

    The number of the run is the highest number in use plus one. Runs that start at the same time get different numbers.

    :param resolved: the config with resolved ``auto`` and null values.
    :param config: the config as composed, which identifies the experiment.
    :param command_line: the command line that trains the run.
    :raises UserError: the folder cannot be written, or the config is too large.
    """
    dump_yaml(asdict(resolved))  # refuses a config that is too large, before there is a folder
    parent = Path.cwd() / resolved.logs / resolved.algo.label
    with as_write_error(parent):
        parent.mkdir(parents=True, exist_ok=True)
        folder = _make_numbered_folder(parent, safe_name(resolved.env.label))
        run = RunFolder(folder, resolved)
        write_text(folder / COMMAND_FILE, command_line + "\n")
        write_json(folder / METADATA_FILE, describe_run(resolved, param_values(config)))
        # Write the config last: once it exists, `rlher resume` in another terminal finds the run. The caller locks the
        # run at once.
        run.write_config()
    return run


@contextmanager
def locked(folder: Path, timeout: float = 0) -> Iterator[None]:
    """Keep other processes from training in a run folder within the block, if its file system has locks.

    :param timeout: seconds to wait for the lock.
    :raises UserError: another process is training in the folder.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + timeout
        while not _try_lock(handle):
            if time.monotonic() >= deadline:
                raise UserError(f"{folder} is being trained by another process; wait until it ends, or stop it.")
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    """Take the lock of an open folder, and return False if another process has the lock.

    On a file system without locks, return True.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def safe_name(name: str) -> str:
    """Return an environment's id as a folder name: without slashes, colons and leading dots."""
    return re.sub(r"[^\w.-]+", "-", name).lstrip(".-") or "env"


def _make_numbered_folder(parent: Path, name: str) -> Path:
    pattern = re.compile(re.escape(name) + r"_(\d+)")
    taken = [int(match[1]) for entry in parent.iterdir() if (match := pattern.fullmatch(entry.name))]
    number = max(taken, default=0)
    while True:
        number += 1
        folder = parent / f"{name}_{number}"
        with suppress(FileExistsError):  # created by another process just now
            folder.mkdir()
            return folder
