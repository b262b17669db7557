"""The content of ``meta.json``, which says how a run was made: versions, commit and machine."""

import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rlher.config.training import RunConfig
from rlher.core import machine

PACKAGES = ("rlher", "torch", "stable-baselines3", "sb3-contrib", "gymnasium", "mujoco", "highway-env", "numpy")
"""Packages on whose versions results depend."""


def describe_run(config: RunConfig, experiment: dict[str, Any]) -> dict[str, Any]:
    """Return the content of ``meta.json`` for a run that starts now.

    :param experiment: the values that change what is learnt or measured. A sweep finds its runs again by these values.
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
            "processor": machine.cpu_info().get("model name", platform.processor()),
            "cores": machine.available_cores(),
            "threads": config.threads,
            "gpu": _gpu(),
        },
    }


def package_versions() -> dict[str, str]:
    """Return the installed versions of the packages that results depend on."""
    versions = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _git_state() -> dict[str, Any] | None:
    """Return the commit of rlher's own checkout and whether files have changed since, or None outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None

    # git takes no lock here, so that a starting run does not make a git command of the user fail.
    git = ["git", "--no-optional-locks", "-C", str(root)]
    status = [*git, "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(status, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.splitlines()  # the first one ends with the commit
    return {"commit": lines[0].split()[-1], "changed": any(not line.startswith("#") for line in lines)}


def _gpu() -> str | None:
    """Return the name of the GPU that torch would use. Runs on a GPU are not exactly repeatable."""
    import torch as th  # already loaded by commands that create runs, not by those that only read them

    return th.cuda.get_device_name() if th.cuda.is_available() else None
