"""Add a run's best model to the pretrained agents: scripts/publish_agent.py <run folder> [<name>]."""

import argparse
import io
import json
import shutil
import zipfile
from pathlib import Path

import torch as th

from rlher.core.reading import open_zip, read_tensors
from rlher.core.writing import atomic_write
from rlher.run import lookup
from rlher.run.model_file import ACTING_PREFIXES, POLICY, read_timesteps
from rlher.run.run_folder import MODEL_FILES, RunFolder

ROOT = Path(__file__).parents[1]
FILES = ("config.yaml", "command.txt", "meta.json", "evaluations.csv", "result.json")


def publish(run: RunFolder, destination: Path) -> None:
    """Copy a run's best model, its policy alone, and the files that say how it was made.

    :raises UserError: the run has no best model, or it cannot be read.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(run.folder / name, destination / name)
    copy_policy(run.model_path("best"), destination / MODEL_FILES["best"])


def copy_policy(source: Path, target: Path) -> None:
    """Copy a model without what only training needs: critics, target networks, optimizers, attributes.

    :raises UserError: the source is missing or damaged.
    """
    steps = read_timesteps(source)
    with open_zip(source) as archive, atomic_write(target) as temporary:
        tensors = read_tensors(archive.read(POLICY), th.device("cpu"))
        policy = io.BytesIO()
        th.save({name: tensor for name, tensor in tensors.items() if name.startswith(ACTING_PREFIXES)}, policy)
        with zipfile.ZipFile(temporary, "w") as copy:
            copy.writestr("data", json.dumps({"num_timesteps": steps}))
            copy.writestr(POLICY, policy.getvalue())


def main() -> None:
    """Publish the run named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="run folder")
    parser.add_argument("name", nargs="?", help="name of the agent; <algo>-<env> if left out")
    arguments = parser.parse_args()
    run = lookup.open_run(arguments.run, "logs")
    name = arguments.name or f"{run.config.algo.name}-{run.config.env.label}"
    destination = lookup.PRETRAINED_AGENTS / name
    publish(run, destination)
    print(f"{destination}: {sum(file.stat().st_size for file in destination.iterdir()) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
