"""Print the README's table from the runs in logs/benchmark/: `python scripts/benchmark_table.py [folder]`.

A row a group of runs (`<group>/seed<n>/`): the success rate after the last step, of each seed and of all episodes
together with its 95 % Wilson interval, and the first evaluation at or above 50 % and 90 % (median over seeds, and how
many got there).
"""

import json
import sys
from pathlib import Path
from statistics import median

import pandas as pd
import yaml

from rlher.stats import wilson


def main(folder: Path) -> None:
    """Print one Markdown row a group."""
    print("| runs | steps | success, last model, by seed | all seeds [95 %] | crashed | 50 % at | 90 % at | seconds |")
    print("|--|--|--|--|--|--|--|--|")
    for group in sorted(path for path in folder.iterdir() if any(path.glob("seed*/result.json"))):
        print(row(group))


def row(group: Path) -> str:
    """Compose a group's row."""
    runs = sorted(path.parent for path in group.glob("seed*/result.json"))
    results = [json.loads((run / "result.json").read_text()) for run in runs]
    config = yaml.safe_load((runs[0] / "config.yaml").read_text())
    episodes = sum(result["episodes"] for result in results)
    successes = round(sum(result["success_rate"] * result["episodes"] for result in results))
    low, high = wilson(successes, episodes)
    crashes = [result["crash_rate"] for result in results if result["crash_rate"] is not None]
    curves = [pd.read_csv(run / "evaluations.csv") for run in runs]
    cells = [
        f"{group.name}: {config['algo']['name']}, {config['env']['name'] or config['env']['id']}",
        f"{results[0]['timesteps']:,}",
        " / ".join(f"{result['success_rate']:.0%}" for result in results),
        f"{successes / episodes:.1%} [{low:.1%}, {high:.1%}]",
        f"{sum(crashes) / len(crashes):.1%}" if crashes else "–",
        first_at(curves, 0.5),
        first_at(curves, 0.9),
        " / ".join(f"{result['wall_seconds']:.0f}" for result in results),
    ]
    return "| " + " | ".join(cells) + " |"


def first_at(curves: list[pd.DataFrame], level: float) -> str:
    """Say when the success rate of an evaluation first reached ``level``."""
    reached = [curve.loc[curve.success_rate >= level, "timesteps"].min() for curve in curves]
    reached = [step for step in reached if not pd.isna(step)]
    if not reached:
        return "never"
    return f"{median(reached):,.0f}" + ("" if len(reached) == len(curves) else f" ({len(reached)} of {len(curves)})")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "logs/benchmark"))
