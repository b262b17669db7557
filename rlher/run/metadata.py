"""How a run was made: ``meta.json`` with versions, commit and machine, and the commands in ``command.txt``.

The first line of ``command.txt`` started the run, each further line resumed it. People copy the commands into a shell,
and somebody else may have written the file.
"""

import contextlib
import platform
import re
import shlex
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rlher.config.training import TrainConfig, keys_that_name_code
from rlher.core import machine
from rlher.core.console import command_line
from rlher.core.safe_files import read_text
from rlher.run.trust import is_signed

COMMAND_FILE, METADATA_FILE = "command.txt", "meta.json"
"""Files that say how a run was made."""
PACKAGES = ("rlher", "torch", "stable-baselines3", "sb3-contrib", "gymnasium", "mujoco", "highway-env", "numpy")
"""Packages on whose versions results depend."""


def describe_run(config: TrainConfig, experiment: str) -> dict[str, Any]:
    """Return the content of ``meta.json`` for a run that starts now.

    :param experiment: from :func:`rlher.config.training.experiment_id`, by which a sweep finds its runs again.
    """
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": config.seed,
        "experiment": experiment,
        "python": platform.python_version(),
        "packages": package_versions(),
        "git": _git_state(),
        "machine": {
            "platform": platform.platform(),
            "processor": machine.cpuinfo().get("model name", platform.processor()),
            "cores": machine.available_cores(),
            "threads": config.threads,
            "gpu": _gpu(),
        },
    }


def package_versions() -> dict[str, str | None]:
    """Return the installed versions of the packages that results depend on, None for those that are missing."""
    return {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_state() -> dict[str, Any] | None:
    """Return the commit of rlher's own checkout and whether files were changed since; None outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None

    describe = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        done = subprocess.run(describe, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    commit, _, changed = done.stdout.strip().partition("-")
    return {"commit": commit, "changed": bool(changed)}


def _gpu() -> str | None:
    """Return the name of the GPU torch would use; runs on a GPU are not exactly repeatable."""
    import torch as th  # already loaded by commands that create runs, not by those that only read them

    return th.cuda.get_device_name() if th.cuda.is_available() else None


# -------------------------------------------------------------------------------------------------- command.txt


def commands(folder: Path, signed: str = "config.yaml") -> list[str]:
    """Return the lines of ``command.txt`` that are one command of rlher, with all special characters quoted.

    ``trust_code`` is removed from them: the person who copies a line decides that. Lines that name code, or may do so,
    are left out if the folder was written elsewhere.

    :param signed: file in the folder that is signed if this user wrote it.
    """
    safe, is_own = [], is_signed(folder / signed)
    for line in read_text(folder / COMMAND_FILE).splitlines():
        with contextlib.suppress(ValueError):  # a quote that is not closed
            words = [word for word in shlex.split(line) if not re.match(r"[-+]*trust.code\b", word)]
            if words[:1] == ["rlher"] and line.isprintable() and (is_own or not any(map(_may_name_code, words))):
                safe.append(command_line(words))
    return safe


def _may_name_code(word: str) -> bool:
    """Return whether a word of a command may name code, or a folder with config files."""
    key, _, value = word.lstrip("-+").partition("=")
    names = ["config-dir", "cd", *keys_that_name_code()]
    is_number = re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", value)
    return not is_number and (":" in word or any(key == name or key.startswith(f"{name}.") for name in names))
