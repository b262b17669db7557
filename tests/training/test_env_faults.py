"""Environments that fail during training: the step is named, and the models saved before can be used."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import TINY

FAULTS = {
    "raise": ("FaultOnceFileExists-v0", "step 2", "ValueError: the motor is on fire", "hostile_envs.py"),
    "reset": ("FaultOnceFileExists-v0", "reset", "OSError: the cable is loose", "hostile_envs.py"),
    "reward": ("FaultOnceFileExists-v0", "step 2", "-inf"),
    "observation": ("FaultOnceFileExists-v0", "step 2", "inf", "'observation'"),
}
"""What the message of each fault names."""


def is_named_once(how: str, err: str) -> bool:
    """Return whether exactly one line of stderr names the fault."""
    return sum(all(part in line for part in FAULTS[how]) for line in err.splitlines()) == 1


@pytest.mark.parametrize(
    ("how", "vec_env", "where"),
    [
        ("raise", "dummy", "main"),
        pytest.param("observation", "dummy", "main", marks=pytest.mark.slow),
        ("reward", "subproc", "worker"),
        pytest.param("reset", "subproc", "worker", marks=pytest.mark.slow),
        ("observation", "dummy", "worker"),  # in an evaluation
    ],
)
def test_models_saved_before_a_fault_can_be_used(rlher, tmp_path: Path, how: str, vec_env: str, where: str) -> None:
    """The environment fails once there is a best model, also in other commands of the process that it fails in."""
    run = tmp_path / "logs/sac/FaultOnceFileExists-v0_1"
    kwargs = f"env.kwargs={{how:{how},once:{run / 'best_model.zip'},where:{where}}}"
    env = ("env=FaultOnceFileExists-v0", "env.modules=[hostile_envs]", kwargs, f"vec_env={vec_env}", "n_envs=2")
    done = rlher("train", "algo=sac", *env, *TINY, "total_timesteps=200", "eval.freq=50", "eval.workers=1")
    assert done.code == 1
    assert is_named_once(how, done.err)
    result = json.loads((run / "result.json").read_text())
    assert result["status"] == "failed"
    assert is_named_once(how, result["error"])
    copy = shutil.copytree(run, tmp_path / "copy")
    config = (copy / "config.yaml").read_text()
    assert str(run) in config
    (copy / "config.yaml").write_text(config.replace(str(run), str(tmp_path / "missing")))
    for which in ("best", "last"):
        assert rlher("evaluate", str(copy), "--model", which, "--episodes", "2", "--trust-code").code == 0
    if where == "main":
        done = rlher("evaluate", str(run), "--episodes", "20", "--trust-code")
        assert done.code == 1
        assert is_named_once(how, done.err)
