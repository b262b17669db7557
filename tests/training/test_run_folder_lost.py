"""A run folder that is moved or deleted during training, and environments that change the current folder."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlher.core.writing import UNFINISHED
from tests.conftest import TINY

RUN = Path("logs/dqn/BitFlipping-v0_1")
TRAIN = ("train", "algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null", *TINY, "eval.workers=0")
TRAIN = (*TRAIN, "total_timesteps=120", "eval.freq=40", "checkpoint.freq=50", "threads=1")


@pytest.mark.parametrize(("change", "at"), [(lambda: shutil.rmtree(RUN), 20), (lambda: RUN.rename("moved"), 110)])
def test_nothing_is_written_after_the_folder_is_lost(rlher, at_env_steps, change: Callable, at: int) -> None:
    at_env_steps(RUN, {at: change})
    ended = rlher(*TRAIN)
    assert (ended.code, str(RUN) in ended.err) == (1, True)
    assert not RUN.exists()
    if Path("moved").exists():
        assert not Path("moved/result.json").exists()
        assert rlher("train", "--resume", "moved").code == 0
        assert json.loads(Path("moved/result.json").read_text())["status"] == "finished"


def test_files_of_killed_writes_are_deleted_when_the_run_is_resumed(rlher) -> None:
    assert rlher(*TRAIN).code == 0
    left = [RUN / f"{UNFINISHED}abcdefgh.zip", RUN / "models" / f"{UNFINISHED}abcdefgh.zip"]
    kept = [RUN / ".hidden", RUN / ".cache.database.db"]
    for path in (*left, *kept):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert rlher("train", "--resume", str(RUN), "more_timesteps=10").code == 0
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in kept)


def test_an_environment_that_changes_the_current_folder(rlher, tmp_path: Path) -> None:
    words = ("env=ChangesFolder-v0", "env.modules=[hostile_envs]", "algo=sac", *TINY, "eval.workers=0", "threads=1")
    assert rlher("train", *words, "total_timesteps=60").code == 0
    run = "logs/sac/ChangesFolder-v0_1"
    for verb in (("evaluate", "--episodes", "2"), ("export", "--output", "exported")):
        os.chdir(tmp_path)
        assert rlher(verb[0], run, *verb[1:]).code == 0
    os.chdir(tmp_path)
    assert Path(run, "result.json").exists()
    assert Path("exported/play.py").exists()
    assert rlher("train", "--resume", run, "more_timesteps=10").code == 0
    assert not Path("/logs").exists()
