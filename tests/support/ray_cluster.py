"""A search on a Ray cluster of two nodes, one of which is killed in mid-trial.

Usage: `python -m tests.support.ray_cluster <folder>`.

Run by test_optimize.py in network and process namespaces of its own, so it may leave everything running.
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

from rlher.tuning.launchers import Ray
from rlher.tuning.supervisor import supervise
from tests.support.postgres import Postgres, binaries
from tests.support.workers import STUCK, new_study, quietly, require_total, wait_for

HEAD = "127.0.0.1:6399"


def start_node(*words: str, **environment: str) -> None:
    """Start a node with a single core."""
    common = ["--node-ip-address=127.0.0.1", "--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]
    ray = Path(sys.executable).parent / "ray"
    where = {**os.environ, "PYTHONPATH": os.getcwd(), **environment}
    done = subprocess.run([ray, "start", *words, *common], env=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def parent(pid: int) -> int | None:
    """Return a process's parent, or None where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def main(folder: Path) -> None:
    """Start both nodes, kill the second while it works on a trial, and see the study through."""
    found = binaries()
    assert found is not None
    postgres = Postgres(Path(tempfile.mkdtemp(prefix="rlher-pg-")), found)
    start_node("--head", "--port=6399", "--include-dashboard=false", f"--temp-dir={tempfile.mkdtemp(prefix='ray-')}")
    start_node(f"--address={HEAD}", **{STUCK: "1"})  # what runs on this node gets stuck
    study, order = new_study(folder, postgres.url, heartbeat=1, seconds=0.3)
    order = replace(order, config=replace(order.config, launcher="ray", ray_address=HEAD, workers=2))
    search = threading.Thread(target=supervise, args=(study, order, 2, Ray(order.config), quietly), daemon=True)
    search.start()
    wait_for((folder / "stuck").exists, 120)
    raylet = parent(int((folder / "stuck").read_text()))
    assert raylet is not None
    workers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    for pid in [raylet, *(pid for pid in workers if parent(pid) == raylet)]:  # all that a dead machine takes with it
        os.kill(pid, signal.SIGKILL)
    search.join(120)
    require_total(study, 8)
    lost = sum(trial.state is TrialState.FAIL for trial in study.trials)
    print(f"8 trials done, {lost} lost on the dead node")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
