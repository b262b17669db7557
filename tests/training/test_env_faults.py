"""Environments that go bad in mid-run: the step is told, and what was learnt before it can be used."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import TINY

TOLD = {
    "raise": "Poisoned-v0: step 2 of an episode raised ValueError: the motor is on fire (hostile_envs.py, line ",
    "reset": "Poisoned-v0: reset raised OSError: the cable is loose (hostile_envs.py, line ",
    "reward": "Poisoned-v0: step 2 of an episode returned a reward of -inf",
    "observation": "Poisoned-v0: step 2 returned inf in 'observation' (entry 0)",
}


@pytest.fixture
def poisoned(rlher, tmp_path, monkeypatch):
    """Train until the environment goes bad, which is when there is a best model."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "support"))
    run = tmp_path / "logs/sac/Poisoned-v0_1"

    def train(how: str, vec_env: str, where: str):
        kwargs = f"env.kwargs={{how:{how},once:{run / 'best_model.zip'},where:{where}}}"
        words = ("algo=sac", "env=Poisoned-v0", "env.modules=[hostile_envs]", *TINY, kwargs, f"vec_env={vec_env}")
        return rlher("train", *words, "n_envs=2", "total_timesteps=400", "eval.freq=100"), run

    return train


@pytest.mark.parametrize(
    ("how", "vec_env", "where"),
    [
        ("raise", "dummy", "main"),
        ("observation", "dummy", "main"),
        ("reward", "subproc", "worker"),
        ("reset", "subproc", "worker"),
        ("observation", "subproc", "main"),  # in an evaluation
    ],
)
def test_what_was_learnt_before_a_fault_can_be_used(rlher, poisoned, tmp_path, how, vec_env, where) -> None:
    done, run = poisoned(how, vec_env, where)
    assert done.code == 1
    assert done.err.count(TOLD[how]) == 1
    assert "Traceback" not in done.err
    result = json.loads((run / "result.json").read_text())
    assert result["status"] == "failed"
    assert result["error"].startswith(TOLD[how])
    sound = shutil.copytree(run, tmp_path / "sound")  # from where the environment does not see its model
    edit(sound / "config.yaml", str(run), str(tmp_path / "nowhere"))
    for which in ("best", "last"):
        assert rlher("evaluate", str(sound), "--checkpoint", which, "--episodes", "2").code == 0


def test_a_fault_is_told_to_who_evaluates_and_who_watches(rlher, poisoned) -> None:
    _, run = poisoned("raise", "dummy", "main")
    before = "raise"
    for how in TOLD:
        edit(run / "config.yaml", f"how: {before}", f"how: {how}")
        for verb in ("evaluate", "enjoy"):
            done = rlher(verb, str(run), "--episodes", "20")
            assert done.code == 1
            assert done.err.count(TOLD[how]) == 1
            assert "Traceback" not in done.err
        before = how


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
