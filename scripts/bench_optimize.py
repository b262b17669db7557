"""Benchmark of the tuner: trials per hour with one and two workers, and its overhead per trial.

`python scripts/bench_optimize.py [--trials 12] [--steps 2000] [--rounds 2]` runs the same random search on
BitFlipping-v0 with one worker and with two in turn, without pruning. It prints a JSON line per search and the medians.
Trials per hour are counted from the start of the first trial to the end of the last one; the seconds before, in which
workers import torch, are `start_seconds`. The machine must be idle, with two cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import optuna

STUDY = "bench"


def main() -> None:
    """Run the searches and print their results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--steps", type=int, default=2000, help="training steps per trial")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    results: dict[int, list[dict]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for workers in results:
            results[workers].append(search(workers, options.trials, options.steps))
            print(json.dumps(results[workers][-1]), flush=True)
    pace = {workers: median(each["trials_per_hour"] for each in runs) for workers, runs in results.items()}
    overhead = median(each["overhead"] for runs in results.values() for each in runs)
    print(json.dumps({"speedup": round(pace[2] / pace[1], 2), "overhead": overhead, "load": os.getloadavg()}))


def search(workers: int, trials: int, steps: int) -> dict:
    """Run one search in a temporary folder and return its times."""
    with tempfile.TemporaryDirectory() as folder:
        words = f"algo=dqn env=BitFlipping-v0 total_timesteps={steps} n_seeds=1 sampler=random pruner=none".split()
        words += f"--study-name {STUDY} --n-trials {trials} --workers {workers} rerun_best=1 rerun_seeds=2".split()
        words.append("eval.final_episodes=1")
        started = time.time()
        subprocess.run(
            [sys.executable, "-m", "rlher.cli.main", "optimize", *words], cwd=folder, check=True, capture_output=True
        )
        results = (Path(folder) / "logs/optuna" / STUDY / "trials").rglob("result.json")
        training = sum(json.loads(path.read_text())["wall_seconds"] for path in results)
        storage = f"sqlite:///{folder}/logs/optuna/{STUDY}/study.db"
        done = optuna.load_study(storage=storage, study_name=STUDY).trials
    starts = [trial.datetime_start.timestamp() for trial in done]
    ends = [trial.datetime_complete.timestamp() for trial in done]
    whole = sum(end - start for start, end in zip(starts, ends, strict=True))
    return {
        "workers": workers,
        "trials": len(done),
        "trials_per_hour": round(3600 * len(done) / (max(ends) - min(starts)), 1),
        "start_seconds": round(min(starts) - started, 1),
        "overhead": round(whole / training - 1, 5),
    }


if __name__ == "__main__":
    main()
