"""A short run of `scripts/stress_resume.py`: runs interrupted at random moments end as uninterrupted ones do."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_interrupted_runs_resume_identically() -> None:
    script = Path(__file__).parents[2] / "scripts/stress_resume.py"
    done = subprocess.run(
        [sys.executable, script, "--minutes", "0.3", "--jobs", "1", "--kinds", "BitFlipping"],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # A slow machine has time for one.
    interruptions, resumes = re.search(r"(\d+) \| (\d+) \| 0 \| 0 \|$", done.stdout, re.MULTILINE).groups()
    assert int(interruptions) >= 1, done.stdout
    assert int(resumes) >= 1, done.stdout
