"""Agents that come with rlher: run folders in logs/agents that hold the weights of the policy alone."""

import shutil
from importlib import resources
from pathlib import Path

from rlher.core.errors import UserError, did_you_mean
from rlher.runs.run_folder import MODELS, Run

FILES = ("config.yaml", "command.txt", "meta.json", "evaluations.csv", "result.json")


class UnknownAgent(UserError):
    """There is no bundled agent ``name``."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no agent {name!r}{did_you_mean(name, names())}; `rlher list agents` lists them.")
        self.name = name


def names() -> list[str]:
    """Return the names of all bundled agents, sorted."""
    return sorted(path.parent.name for path in _root().glob(f"*/{MODELS['best']}"))


def folder(name: str) -> Path:
    """Return the folder of a bundled agent.

    :raises UnknownAgent: there is none of that name.
    """
    if name not in names():
        raise UnknownAgent(name)
    return _root() / name


def publish(run: Run, destination: Path) -> None:
    """Copy a run's best model, its policy alone, and the files that say how it was made.

    :raises UserError: the run has no best model, or it cannot be read.
    """
    from rlher.runs import model_file  # imports torch, which `rlher list agents` does not need

    destination.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(run.folder / name, destination / name)
    model_file.copy_policy(run.model("best"), destination / MODELS["best"])


def _root() -> Path:
    return Path(str(resources.files("rlher.agents")))
