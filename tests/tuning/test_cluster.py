"""Beyond one process: Slurm, a Ray cluster that loses a node."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres import binaries
from tests.support.small_search import ROOT

SLURM = ROOT / "scripts/optimize_slurm.sh"


def test_slurm_script(tmp_path: Path) -> None:
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
    fake = tmp_path / "sbatch"
    fake.write_text('#!/bin/bash\nprintf "%s\\n" "$@" > sbatch.words\ncat > sbatch.job\necho "Submitted batch job 7"\n')
    fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "WORKERS": "12"}
    words = ["--storage", "postgresql://me@db/optuna", "algo=tqc", "her.goal_mix={future: 1}"]
    subprocess.run(["bash", str(SLURM), *words], check=True, cwd=tmp_path, env=environment)
    assert "--array=1-12" in (tmp_path / "sbatch.words").read_text().splitlines()
    job = (tmp_path / "sbatch.job").read_text()
    (tmp_path / "rlher").write_text('#!/bin/bash\nprintf "%s\\n" "$@" > rlher.words\n')
    (tmp_path / "rlher").chmod(0o755)
    subprocess.run(["bash"], input=job, text=True, check=True, cwd=tmp_path, env=environment)
    assert (tmp_path / "rlher.words").read_text().splitlines() == ["optimize", *words]
    refused = subprocess.run(["bash", str(SLURM), "algo=tqc"], capture_output=True, text=True, env=environment)
    assert refused.returncode == 2
    assert "--storage" in refused.stderr


@pytest.mark.slow
def test_ray_cluster_survives_the_death_of_a_node(tmp_path: Path) -> None:
    """Two nodes and PostgreSQL, in network and process namespaces that end everything started in them."""
    pytest.importorskip("ray")
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    namespaces = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*namespaces, "true"], capture_output=True).returncode:
        pytest.skip("unshare is not permitted here")
    cluster = [sys.executable, "-m", "tests.support.ray_cluster", str(tmp_path)]
    command = [*namespaces, "bash", "-c", 'ip link set lo up && exec "$@"', "-", *cluster]
    # The namespace has no network but loopback; without authentication Ray writes no token to the home folder. Ray's
    # workers are nice by default, and would wait for the tests that run beside this one.
    options = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    environment = {**os.environ, **options}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 trials done, 1 lost" in done.stdout
