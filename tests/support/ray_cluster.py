"""A sweep and a search on a Ray cluster of two nodes, one of which is killed during a trial.

Usage: `python -m tests.support.ray_cluster <folder>`.

test_cluster.py runs it in separate network and process namespaces, which end the servers that it leaves running.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from optuna.trial import TrialState

from tests.conftest import TINY
from tests.support.postgres import Postgres, binaries
from tests.support.workers import BLOCK, new_study, require_complete, run_trials, wait_for

HEAD = "127.0.0.1:6399"


def start_node(*words: str, **environment: str) -> None:
    """Start a node with one core."""
    common = ["--node-ip-address=127.0.0.1", "--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]
    ray = Path(sys.executable).parent / "ray"
    where = {**os.environ, "PYTHONPATH": os.getcwd(), **environment}
    done = subprocess.run([ray, "start", *words, *common], env=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def parent(pid: int) -> int | None:
    """Return the pid of a process's parent, None if the process is dead."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def main(folder: Path) -> None:
    """Start both nodes, kill the second one during a trial, and check that the study completes."""
    found = binaries()
    assert found is not None
    postgres = Postgres(Path(tempfile.mkdtemp(prefix="rlher-pg-")), found)
    start_node("--head", "--port=6399", "--include-dashboard=false", f"--temp-dir={tempfile.mkdtemp(prefix='ray-')}")
    start_node(f"--address={HEAD}", **{BLOCK: "1"})  # trials on this node block
    sweep = ["train", "-m", "algo=dqn", "env=BitFlipping-v0", "recipe=null", *TINY, "total_timesteps=60", "seed=0,1"]
    workers = ["workers=2", "launcher=ray", f"ray_address={HEAD}"]
    subprocess.run([sys.executable, "-m", "rlher", *sweep, *workers], cwd=folder, check=True, timeout=200)
    study, runner = new_study(folder, postgres.url, heartbeat=5, seconds=0.3)
    config = replace(runner.search.config, launcher="ray", ray_address=HEAD)
    runner = replace(runner, search=replace(runner.search, config=config))
    thread = threading.Thread(target=run_trials, args=(study, runner, 2), daemon=True)
    thread.start()
    wait_for((folder / "blocked").exists, 120)
    raylet = parent(int((folder / "blocked").read_text()))
    assert raylet is not None
    processes = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    for pid in [raylet, *(pid for pid in processes if parent(pid) == raylet)]:  # as if the machine had died
        os.kill(pid, signal.SIGKILL)
    thread.join(120)
    require_complete(study)
    lost = sum(trial.state is TrialState.FAIL for trial in study.trials)
    print(f"8 trials done, {lost} lost on the dead node")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
