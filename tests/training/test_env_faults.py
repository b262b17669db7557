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


@pytest.fixture
def train_until_fault(rlher, tmp_path, monkeypatch):
    """Train in an environment that fails once there is a best model."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "support"))
    run = tmp_path / "logs/sac/FaultOnceFileExists-v0_1"

    def train(how: str, vec_env: str, where: str):
        kwargs = f"env.kwargs={{how:{how},once:{run / 'best_model.zip'},where:{where}}}"
        words = ("env=FaultOnceFileExists-v0", "env.modules=[hostile_envs]", kwargs, f"vec_env={vec_env}", "n_envs=2")
        run_words = ("total_timesteps=400", "eval.freq=100", "eval.workers=1")
        return rlher("train", "algo=sac", *words, *TINY, *run_words), run

    return train


@pytest.mark.parametrize(
    ("how", "vec_env", "where"),
    [
        ("raise", "dummy", "main"),
        ("observation", "dummy", "main"),
        ("reward", "subproc", "worker"),
        ("reset", "subproc", "worker"),
        ("observation", "dummy", "worker"),  # in an evaluation
    ],
)
def test_models_saved_before_a_fault_can_be_used(rlher, train_until_fault, tmp_path, how, vec_env, where) -> None:
    done, run = train_until_fault(how, vec_env, where)
    assert done.code == 1
    assert is_named_once(how, done.err)
    assert "Traceback" not in done.err
    result = json.loads((run / "result.json").read_text())
    assert result["status"] == "failed"
    assert is_named_once(how, result["error"])
    copy = shutil.copytree(run, tmp_path / "copy")
    edit(copy / "config.yaml", str(run), str(tmp_path / "missing"))  # without a best model there, it does not fail
    for which in ("best", "last"):
        assert rlher("evaluate", str(copy), "--model", which, "--episodes", "2", "--trust-code").code == 0


def test_evaluate_and_enjoy_report_the_fault(rlher, train_until_fault) -> None:
    _, run = train_until_fault("raise", "dummy", "main")
    before = "raise"
    for how in FAULTS:
        edit(run / "config.yaml", f"how: {before}", f"how: {how}")
        for command in ("evaluate", "enjoy"):
            done = rlher(command, str(run), "--episodes", "20", "--trust-code")
            assert done.code == 1
            assert is_named_once(how, done.err)
            assert "Traceback" not in done.err
        before = how


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
