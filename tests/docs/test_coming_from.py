"""Every row of the tables on SB3's buffer, cpprb and SBX works. Those on RL Zoo: tests/cli/test_rl_zoo.py."""

import re
import shlex
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher import HerReplayBuffer
from rlher.config.environment import EnvConfig
from rlher.envs.make import make_env
from tests.support.documents import ROOT

PAGE = (ROOT / "docs/guide/coming_from.md").read_text()


def rows(section: str) -> list[tuple[str, str]]:
    """Return the first two cells of each row of a section's tables: theirs and ours."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return [(row[0], row[1].strip("`")) for row in cells if row[0].startswith("`") or row[1].startswith("`")]


SB3, CPPRB, SBX = rows("SB3's HerReplayBuffer"), rows("cpprb"), rows("SBX")
COMMANDS = [ours for _, ours in SB3 + SBX if ours.startswith("rlher ")]
ARGUMENTS = [(theirs.strip("`"), ours) for theirs, ours in SB3 if re.match(r"\w+=", ours)]


def bits() -> gym.Env:
    return make_env(EnvConfig(id="BitFlipping-v0", kwargs={"n_bits": 4}))


def make() -> DummyVecEnv:
    return DummyVecEnv([bits])


@pytest.fixture
def names() -> dict:
    """The names that a program with a buffer has after a step."""
    env = make()
    obs = env.reset()
    action = np.zeros(1, dtype=int)
    next_obs, reward, done, infos = env.step(action)
    return {**globals(), **locals(), "make": bits}


def test_no_row_is_left_out() -> None:
    assert len(SB3) + len(SBX) == len(COMMANDS) + len(ARGUMENTS) + 1, "the one row is the import"
    assert min(len(ARGUMENTS), len(CPPRB), len(SBX)) >= 6
    exec(SB3[0][1])


@pytest.mark.parametrize("line", COMMANDS)
def test_command(rlher, line: str) -> None:
    assert rlher(*shlex.split(line)[1:], "--cfg", "job").code == 0


@pytest.mark.parametrize(("theirs", "ours"), ARGUMENTS)
def test_arguments_of_the_buffer(theirs: str, ours: str) -> None:
    for buffer, text in ((stable_baselines3.HerReplayBuffer, theirs), (HerReplayBuffer, ours)):
        env = make()
        assert buffer(100, env.observation_space, env.action_space, env=env, **eval(f"dict({text})"))


def test_a_loop_of_cpprb(names: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = [ours for _, ours in CPPRB if ours]
    added = "prioritized.add(obs, next_obs, action, reward, done, infos)"
    for line in [code[1], code[0], *code[2:4], added, *code[4:]]:
        exec(line, names)
    assert names["batch"].rewards.shape == (32, 1)
    assert Path("buffer.npz").exists()
    assert names["buffer"].n_transitions == 0
