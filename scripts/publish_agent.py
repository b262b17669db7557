"""Add a run's best model to the agents that come with rlher: scripts/publish_agent.py <run folder> [<name>]."""

import argparse
from pathlib import Path

from rlher.runs import bundled_agents, lookup

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Publish the run named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="run folder")
    parser.add_argument("name", nargs="?", help="name of the agent; <algo>-<env> if left out")
    arguments = parser.parse_args()
    run = lookup.find(arguments.run, "logs")
    name = arguments.name or f"{run.config.algo.name}-{run.config.env.name or run.config.env.id}"
    destination = ROOT / "logs" / "agents" / name
    bundled_agents.publish(run, destination)
    print(f"{destination}: {sum(file.stat().st_size for file in destination.iterdir()) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
