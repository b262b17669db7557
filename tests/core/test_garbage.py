"""Garbage collections are few during imports only."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlher.core import garbage
from tests.conftest import TINY

SUPPORT = Path(__file__).parents[1] / "support"


def test_collections_are_postponed_for_a_time() -> None:
    assert gc.get_threshold() == garbage.USUAL
    garbage.postpone_collections()
    try:
        assert gc.get_threshold()[0] == garbage.MIN_OBJECTS
    finally:
        garbage.collect_as_usual()
        gc.unfreeze()
    assert gc.get_threshold() == garbage.USUAL


@pytest.mark.parametrize("vec_env", ["dummy", "subproc"])
def test_cycles_that_an_environment_leaves_are_collected(tmp_path: Path, vec_env: str) -> None:
    words = ("algo=ddpg", "env=LeavesCycles-v0", "env.modules=[hostile_envs]", *TINY)
    length = ("total_timesteps=2500", "algo.train_freq=50", "algo.gradient_steps=1", "engine.overlap=false")
    done = subprocess.run(
        [sys.executable, "-m", "rlher.cli.main", "train", *words, *length, f"vec_env={vec_env}"],
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
