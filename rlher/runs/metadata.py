"""The metadata of a run, ``meta.json``: versions, commit and machine."""

import functools
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rlher.config.training import TrainConfig

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
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "threads": config.threads,
            "gpu": _gpu(),
        },
    }


def package_versions() -> dict[str, str | None]:
    """Return the installed versions of the packages that results depend on, None for those that are missing."""
    return {name: _version(name) for name in PACKAGES}


@functools.cache  # a process may train many runs
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@functools.cache
def _git_state() -> dict[str, Any] | None:
    """Return the commit of rlher's own checkout and whether files were changed since; None outside a checkout."""
    root = Path(__file__).parents[2]
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
    """Return the name of the GPU torch would use; runs on a GPU are not exactly repeatable."""
    import torch as th  # already loaded by commands that create runs, not by those that only read them

    return th.cuda.get_device_name() if th.cuda.is_available() else None


@functools.cache
def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor()
