"""What Linux has and other systems lack is not needed: locks, the fork server, signals and calls of the system."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import multiprocessing, os, signal, sys
sys.modules["fcntl"] = None
multiprocessing.get_all_start_methods = lambda: ["spawn"]
del os.sched_getaffinity, os.posix_fallocate, signal.SIGHUP, signal.pthread_sigmask
if __name__ == "__main__":
    from rlher.cli.main import main
    train = "train algo=dqn env=BitFlipping-v0 env.kwargs.n_bits=4 total_timesteps=300 n_envs=2 eval.workers=1"
    sys.exit(main(train.split()) or main("collect --episodes 2 --output demos/bits-v0".split()))
"""


@pytest.mark.slow
def test_agents_are_trained_and_recorded_without_what_linux_has(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demos/bits-v0/data/main_data.hdf5").exists()
