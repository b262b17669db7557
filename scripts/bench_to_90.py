"""Minutes from Enter to the first evaluation at 90 % success: this checkout, and another one, seed by seed in turns.

    python scripts/bench_to_90.py "algo=ddpg env=FetchPush-v4" --other ../checkout [--seeds 0 1 2 3 4]

A run is killed when it gets there. `--other` is a checkout with its own `.venv`, for example of an earlier commit; it
takes the same words unless `--other-words` gives others. The machine must be idle.
"""

import argparse
import csv
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET = 0.9
POLL_SECONDS = 0.5


def first_at_target(folder: Path) -> int | None:
    """Return the steps of the first evaluation at the target among those that were written, if there is one."""
    for file in folder.glob("logs/*/*/evaluations.csv"):
        with file.open(newline="") as rows:
            steps = [int(row["timesteps"]) for row in csv.DictReader(rows) if float(row["success_rate"]) >= TARGET]
        if steps:
            return steps[0]
    return None


def minutes_to_target(program: Path, words: list[str]) -> tuple[float, int | None]:
    """Run `rlher train` until it gets to the target or ends; return the minutes, and the steps if it got there."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        start = time.monotonic()
        run = subprocess.Popen(
            [program, "train", *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while (steps := first_at_target(folder)) is None and run.poll() is None:
                time.sleep(POLL_SECONDS)
            return (time.monotonic() - start) / 60, steps
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", help="words after `rlher train`")
    parser.add_argument("--other", type=Path, help="another checkout")
    parser.add_argument("--other-words", help="its words, if they are others")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    arguments = parser.parse_args()
    contenders = {"this checkout": (Path(sys.executable).parent / "rlher", arguments.words.split())}
    if arguments.other:
        words = (arguments.other_words or arguments.words).split()
        contenders["other"] = (arguments.other.absolute() / ".venv" / "bin" / "rlher", words)
    minutes: dict[str, list[float]] = {name: [] for name in contenders}
    for seed in arguments.seeds:
        for name, (program, words) in contenders.items():
            taken, steps = minutes_to_target(program, [*words, f"seed={seed}"])
            minutes[name].append(taken if steps is not None else float("inf"))
            reached = "not reached" if steps is None else f"{steps:,} steps"
            print(f"seed {seed}, {name}: {taken:.2f} min, {reached}", flush=True)
    medians = {name: statistics.median(values) for name, values in minutes.items()}
    for name, median in medians.items():
        print(f"median of {name}: {median:.2f} min, {median / medians['this checkout']:.2f} of this checkout's")
    if arguments.other:
        print(f"this checkout / other: {medians['this checkout'] / medians['other']:.2f}")


if __name__ == "__main__":
    main()
