"""Measure the tuner: trials an hour with one and two workers, and its own share of a trial.

`python scripts/bench_optimize.py [--trials 12] [--steps 2000] [--rounds 2]` runs the same random search on
BitFlipping-v0 in turn with one worker and with two, without pruning, and prints a JSON line a search and the medians.
An hour's trials are counted from the first trial's start to the last one's end, so the few seconds in which workers
import torch are left out, and given besides as `start_seconds`. The machine must be idle: two workers need two cores.
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
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

STUDY = "bench"


def main() -> None:
    """Run the searches and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--steps", type=int, default=2000, help="training steps a trial")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    found: dict[int, list[dict]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for workers in found:
            found[workers].append(search(workers, options.trials, options.steps))
            print(json.dumps(found[workers][-1]), flush=True)
    pace = {workers: median(each["trials_per_hour"] for each in runs) for workers, runs in found.items()}
    overhead = median(each["overhead"] for runs in found.values() for each in runs)
    print(json.dumps({"speedup": round(pace[2] / pace[1], 2), "overhead": overhead, "load": os.getloadavg()}))


def search(workers: int, trials: int, steps: int) -> dict:
    """Run one search in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        words = f"algo=dqn env=BitFlipping-v0 total_timesteps={steps} n_seeds=1 sampler=random pruner=none".split()
        words += f"--study-name {STUDY} --n-trials {trials} --workers {workers} rerun_best=1 rerun_seeds=2".split()
        words.append("eval.final_episodes=1")
        started = time.time()
        subprocess.run(
            [sys.executable, "-m", "rlher.cli.main", "optimize", *words], cwd=folder, check=True, capture_output=True
        )
        journal = Path(folder) / "logs/optuna" / STUDY / "journal.log"
        done = optuna.load_study(storage=JournalStorage(JournalFileBackend(str(journal))), study_name=STUDY).trials
    began = [trial.datetime_start.timestamp() for trial in done]
    ended = [trial.datetime_complete.timestamp() for trial in done]
    training = sum(trial.user_attrs["seconds"] for trial in done)
    whole = sum(end - begin for begin, end in zip(began, ended, strict=True))
    return {
        "workers": workers,
        "trials": len(done),
        "trials_per_hour": round(3600 * len(done) / (max(ended) - min(began)), 1),
        "start_seconds": round(min(began) - started, 1),
        "overhead": round(whole / training - 1, 5),
    }


if __name__ == "__main__":
    main()
