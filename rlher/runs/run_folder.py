"""The run folder: one training run, everything about it, and reading it back.

``logs/<algo>/<env>_<n>/`` holds ``config.yaml`` (resolved), ``command.txt``, ``meta.json``, ``evaluations.csv``,
``result.json``, ``best_model.zip``, ``last_model.zip``, ``checkpoints/``, and SB3's ``progress.csv`` and TensorBoard
files; where asked for, ``models/<steps>.zip`` and ``clips/<steps>.mp4``.
"""

import csv
import fcntl
import io
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlher import COMMAND
from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import ENV_SCHEMAS, EnvConfig
from rlher.config.key import to_object
from rlher.config.training import TrainConfig
from rlher.core.console import command_line
from rlher.core.errors import UserError, did_you_mean, first_line, os_error_reason
from rlher.core.files import read_json, read_text, read_yaml, sync, write_json, write_text
from rlher.runs.untrusted import require_own_modules, require_resolved

PACKAGES = (
    "rlher",
    "torch",
    "stable-baselines3",
    "sb3-contrib",
    "gymnasium",
    "gymnasium-robotics",
    "mujoco",
    "highway-env",
    "numpy",
)
MODELS = {"best": "best_model.zip", "last": "last_model.zip"}


def model_name(which: str) -> str:
    """Say which model it is: "best model", "model after 1,000 steps"."""
    return f"{which} model" if which in MODELS else f"model after {int(which):,} steps"


@dataclass(frozen=True)
class Run:
    """A run folder.

    :param folder: where it is.
    :param config: what it was, or is to be, trained with.
    """

    folder: Path
    config: TrainConfig

    def model(self, which: str) -> Path:
        """Return the path of the ``"best"`` or ``"last"`` model, or of the one kept after so many steps."""
        return self.folder / MODELS.get(which, f"models/{which}.zip")

    def kept(self) -> list[int]:
        """List the steps after which a model was kept, see ``eval.keep_models``, in rising order."""
        return sorted(int(path.stem) for path in self.folder.glob("models/*.zip") if path.stem.isdecimal())

    def choose(self, checkpoint: str, order: tuple[str, ...]) -> str:
        """Return which model a person means.

        :param checkpoint: ``"best"``, ``"last"``, a number of steps, or ``"auto"`` for the first of ``order`` there is.
        :raises UserError: it is none of these, or no model was kept after so many steps.
        """
        if checkpoint == "auto":
            return next((name for name in order if self.model(name).exists()), order[0])
        if checkpoint in MODELS:
            return checkpoint
        if not checkpoint.isdecimal():
            near = did_you_mean(checkpoint, MODELS)
            raise UserError(f"checkpoint={checkpoint} is neither best, last, auto nor a number of steps{near}.")
        kept = self.kept()
        if int(checkpoint) in kept:
            return str(int(checkpoint))
        if not kept:
            raise UserError(
                f"{self.folder} keeps no model by steps, only {' and '.join(self._there()) or 'none at all'}: "
                "train with eval.keep_models=true to keep one at each evaluation."
            )
        near = " and ".join(
            f"{steps:,}" for steps in sorted(sorted(kept, key=lambda each: abs(each - int(checkpoint)))[:2])
        )
        raise UserError(
            f"{self.folder} keeps no model after {int(checkpoint):,} steps; nearest: {near} (of {len(kept)})."
        )

    def _there(self) -> list[str]:
        return [name for name in MODELS if self.model(name).exists()]

    @property
    def checkpoints(self) -> Path:
        """Return the folder of its checkpoints, which may not exist."""
        return self.folder / "checkpoints"

    def write_evaluations(self, rows: list[dict[str, Any]]) -> None:
        """Replace ``evaluations.csv`` by these rows; without any there is none."""
        if not rows:
            (self.folder / "evaluations.csv").unlink(missing_ok=True)
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.folder / "evaluations.csv", text.getvalue())

    def write_result(self, result: dict[str, Any]) -> None:
        """Replace ``result.json``."""
        write_json(self.folder / "result.json", result)


def create(config: TrainConfig) -> Run:
    """Make the folder of a new run and write down all that is known before it starts.

    The number is the first free one after the highest; ``mkdir`` decides between two runs that start at once.

    :raises UserError: the folder cannot be written.
    """
    parent = Path(config.logs) / config.algo.name
    name = safe_name(config.env.name or config.env.id)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = _first_free(parent, name)
        run = Run(folder, config)
        write_config(run)
        write_text(folder / "command.txt", os.environ.get(COMMAND, command_line(sys.argv)) + "\n")
        write_json(folder / "meta.json", _meta(config))
        for each in (parent, parent.parent):
            sync(each)
    except OSError as error:
        raise UserError(f"cannot write the run folder in {parent}: {os_error_reason(error)}.") from error
    return run


def write_config(run: Run) -> None:
    """Replace ``config.yaml``."""
    # No aliases: a list two keys share is written twice, where YAML would write &id001 and *id001.
    write_text(run.folder / "config.yaml", yaml.dump(asdict(run.config), sort_keys=False, Dumper=_PlainDumper))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other process from training in a run folder within the block.

    :raises UserError: another one does.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise UserError(f"{folder} is being trained right now, by another process.") from None
    try:
        yield
    finally:
        os.close(handle)


class _PlainDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def safe_name(name: str) -> str:
    """Make a folder name of an environment's id, which may hold slashes and colons."""
    return re.sub(r"[^\w.-]+", "-", name).lstrip(".-") or "env"


def _first_free(parent: Path, name: str) -> Path:
    taken = [
        int(match[1]) for entry in parent.iterdir() if (match := re.fullmatch(re.escape(name) + r"_(\d+)", entry.name))
    ]
    number = max(taken, default=0) + 1
    while True:
        try:
            (parent / f"{name}_{number}").mkdir()
        except FileExistsError:
            number += 1
        else:
            return parent / f"{name}_{number}"


def _meta(config: TrainConfig) -> dict[str, Any]:
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": config.seed,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "git": _git_state(),
        "machine": {
            "platform": platform.platform(),
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "threads": config.threads,
            "gpu": _gpu(),
        },
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_state() -> dict[str, Any] | None:
    """Return the commit of rlher's own checkout and whether it was changed since, or None outside one."""
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(root), *command], capture_output=True, text=True, check=True, timeout=10
            ).stdout
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.strip(), "changed": bool(status.strip())}


def _gpu() -> str | None:
    """Return the name of the GPU that torch would use; its sums are not ordered, so it is the end of repeatability."""
    import torch as th  # heavy; whoever creates a run has loaded it

    return th.cuda.get_device_name() if th.cuda.is_available() else None


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor()


# --------------------------------------------------------------------------------------------- reading back


def find(run: str | None, logs: str) -> Run:
    """Open a run folder, the newest one under ``logs`` where none is named.

    :raises UserError: there is none, or it is not a run folder.
    """
    folder = Path(run) if run else _newest(Path(logs))
    if not folder.is_dir():
        near = f" The newest here is {newest}." if (newest := _newest_or_none(Path(logs))) else ""
        raise UserError(f"there is no run folder {folder}.{near}")
    config = _read_config(folder / "config.yaml")
    require_own_modules(config.env, folder)
    return Run(folder, config)


def latest_unfinished(logs: str) -> Run:
    """Open the run that was begun last of those that are not finished; the newest one where all are.

    :raises UserError: there is none at all.
    """
    begun = sorted(Path(logs).glob("*/*/config.yaml"), key=_modified, reverse=True)
    for mark in begun:
        if not _is_dry(mark.parent) and read_json(mark.parent / "result.json").get("status") != "finished":
            return find(str(mark.parent), logs)
    return find(None, logs)


def _newest(logs: Path) -> Path:
    if (folder := _newest_or_none(logs)) is None:
        raise UserError(f"there is no run under {logs}/: `rlher train` makes one, or name a run folder.")
    return folder


def _newest_or_none(logs: Path) -> Path | None:
    """Return the run whose model was written last, or that was begun last where none has a model yet.

    A dry run is not meant to be looked at, so only where there is nothing else. Nor is a file written last whose time
    has not come yet: the clock was put back since.
    """
    models = [model for name in MODELS.values() for model in logs.glob(f"*/*/{name}")]
    now = time.time()
    times = {mark: _modified(mark) for mark in models or logs.glob("*/*/config.yaml")}
    marks = sorted(times, key=lambda mark: (times[mark] <= now, times[mark]), reverse=True)
    return next((mark.parent for mark in marks if not _is_dry(mark.parent)), marks[0].parent if marks else None)


def _is_dry(folder: Path) -> bool:
    return "\ndry_run: true\n" in read_text(folder / "config.yaml")


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # replaced by a run that is being written
        return 0.0


def _read_config(path: Path) -> TrainConfig:
    try:
        values = read_yaml(path)
        require_resolved(values)
        schema = TrainConfig(algo=ALGORITHMS[values["algo"]["name"]].config(), env=_env_schema(values["env"]))
        config = to_object(OmegaConf.merge(OmegaConf.structured(schema), values), TrainConfig)
    except FileNotFoundError:
        runs = sorted(path.parent.glob("*/config.yaml"), key=_modified)
        near = f" {runs[-1].parent} is one." if runs else ""
        raise UserError(f"{path.parent} is not a run folder: it has no config.yaml.{near}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OmegaConfBaseException, UserError) as error:
        raise UserError(f"{path} is damaged: {first_line(error)}.") from error
    return config


def _env_schema(values: dict[str, Any]) -> EnvConfig:
    """Return the environment schema that has all of these keys; an environment of our own adds some."""
    fitting = (schema for schema in ENV_SCHEMAS.values() if set(values) <= {item.name for item in fields(schema)})
    return next(fitting, EnvConfig)()
