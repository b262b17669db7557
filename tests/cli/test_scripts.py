"""The benchmark scripts run, with small settings; their numbers are not checked."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.mark.parametrize(
    "command",
    [
        ("bench_train.py", "--only", "dqn", "--rounds", "1", "--capacity", "3000", "--eager", "--threads", "1"),
        ("bench_buffer.py", "--repeats", "1", "--capacities", "2000", "--skip-memory"),
        ("bench_run.py", "--only", "first_step", "--rounds", "1", "--scale", "0.03", "--contenders", "plain SB3"),
    ],
    ids=lambda command: command[0],
)
def test_a_benchmark_runs(command: tuple[str, ...], tmp_path: Path) -> None:
    script, *options = command
    done = subprocess.run(
        [sys.executable, SCRIPTS / script, *options], capture_output=True, text=True, cwd=tmp_path, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d\.\d", done.stdout)
