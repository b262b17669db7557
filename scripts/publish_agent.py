"""Add a run's best model to the agents that come with rlher: scripts/publish_agent.py <run folder> [<name>]."""

import sys
from pathlib import Path

from rlher.runs import bundled_agents, lookup

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Publish the run named on the command line."""
    run = lookup.find(sys.argv[1], "logs")
    name = sys.argv[2] if len(sys.argv) > 2 else f"{run.config.algo.name}-{run.config.env.name or run.config.env.id}"
    destination = ROOT / "logs" / "agents" / name
    bundled_agents.publish(run, destination)
    print(f"{destination}: {sum(file.stat().st_size for file in destination.iterdir()) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
