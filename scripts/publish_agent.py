"""Add a run's best model to the agents that come with rlher: scripts/publish_agent.py <run folder> [<name>]."""

import argparse
import shutil
from pathlib import Path

from rlher.runs import lookup, model_file
from rlher.runs.run_folder import MODELS, Run

ROOT = Path(__file__).parents[1]
FILES = ("config.yaml", "command.txt", "meta.json", "evaluations.csv", "result.json")


def publish(run: Run, destination: Path) -> None:
    """Copy a run's best model, its policy alone, and the files that say how it was made.

    :raises UserError: the run has no best model, or it cannot be read.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(run.folder / name, destination / name)
    model_file.copy_policy(run.model("best"), destination / MODELS["best"])


def main() -> None:
    """Publish the run named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="run folder")
    parser.add_argument("name", nargs="?", help="name of the agent; <algo>-<env> if left out")
    arguments = parser.parse_args()
    run = lookup.find(arguments.run, "logs")
    name = arguments.name or f"{run.config.algo.name}-{run.config.env.name or run.config.env.id}"
    destination = ROOT / "logs" / "agents" / name
    publish(run, destination)
    print(f"{destination}: {sum(file.stat().st_size for file in destination.iterdir()) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
