"""Processes that die or hang: another takes their place, and nothing that never happened is learnt from."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hostile_envs import LineEnv  # noqa: F401  (registers)

from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault
from rlher.envs import subproc
from rlher.envs.vec import make_goal_envs
from rlher.training import setup
from tests.conftest import TINY


def mortal(how: str, marks: Path, keys: dict | None = None, **kwargs) -> EnvConfig:
    return EnvConfig(
        id="Mortal-v0", modules=["hostile_envs"], kwargs=dict(how=how, marks=str(marks), **kwargs), **keys or {}
    )


@pytest.fixture
def group():
    """Make a group of environments that is closed at the end, whatever becomes of it."""
    made = []

    def make(cfg: EnvConfig, n_envs: int = 2, seed: int = 0):
        made.append(make_goal_envs(cfg, n_envs, seed, "subproc"))
        made[-1].reset()
        return made[-1]

    yield make
    for envs in made:
        envs.close()


STAY = np.zeros((2, 1), dtype=np.float32)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("kill", "died (killed by SIGKILL)"),
        ("segfault", "died (killed by SIGSEGV)"),
        ("exit", "died (exit status 7)"),
        ("hang", "hung (no answer in 1 s, see env.step_timeout)"),
    ],
)
def test_another_process_takes_the_place_of_a_dead_one(group, tmp_path, capfd, how, told):
    envs = group(mortal(how, tmp_path, {"step_timeout": 1.0}))
    for _ in range(2):
        before, *_ = envs.step(STAY)
    after, rewards, dones, infos = envs.step(STAY)
    (dead,) = [index for index, info in enumerate(infos) if "lost_step" in info]
    living = 1 - dead
    assert dones[dead]
    assert infos[dead]["TimeLimit.truncated"]
    for key, value in infos[dead]["terminal_observation"].items():
        assert value == before[key][dead], "the last that was seen of the episode"
    assert not dones[living]
    assert rewards[living] == -1
    assert after["achieved_goal"][living] == before["achieved_goal"][living]
    assert after["achieved_goal"][dead] != before["achieved_goal"][dead]
    assert envs.restarts == 1
    err = capfd.readouterr().err
    assert err.count(told) == 1
    assert f"the process of environment {dead} " in err
    assert "Traceback" not in err
    for _ in range(30):
        *_, infos = envs.step(STAY)
        assert not any("lost_step" in info for info in infos)


def test_what_comes_after_a_death_repeats_itself(group, tmp_path):
    starts = []
    for number in range(2):
        (marks := tmp_path / str(number)).mkdir()
        envs = group(mortal("exit", marks, times=8, at=1), seed=3)
        goals = [envs.step(STAY)[0]["desired_goal"][:, 0] for _ in range(4)]
        starts.append(np.stack(goals))
    assert (starts[0] == starts[1]).all()
    assert len(np.unique(starts[0])) == 8, "every restart begins elsewhere"


def test_who_dies_at_every_step_ends_the_run(group, tmp_path):
    envs = group(mortal("exit", tmp_path, {"max_restarts": 2}, times=100, at=1))
    for _ in range(2):
        envs.step(STAY)
    with pytest.raises(EnvironmentFault, match=r"died \(exit status 7\), after 2 restarts without a finished episode"):
        envs.step(STAY)


def test_who_dies_now_and_then_may_do_so_for_ever(group):
    """An episode that ends pays for a death before it."""
    envs = group(EnvConfig(id="LineEnv-v0", modules=["hostile_envs"], max_restarts=1), 1)
    for _ in range(4):
        os.kill(envs.venv.processes[0].pid, signal.SIGKILL)
        assert "lost_step" in envs.step(STAY[:1])[3][0]
        while not envs.step(STAY[:1])[2].any():
            pass
    assert envs.restarts == 4


def test_a_death_between_two_steps_ends_the_episode_too(group):
    """The reward function is asked in the first environment's process, and its next step is for the old episode."""
    envs = group(EnvConfig(id="LineEnv-v0", modules=["hostile_envs"]))
    before, *_ = envs.step(STAY)
    os.kill(envs.venv.processes[0].pid, signal.SIGKILL)
    assert envs.env_method("compute_reward", np.zeros((4, 1)), np.zeros((4, 1)), {}, indices=[0])[0].tolist() == [0] * 4
    _, _, dones, infos = envs.step(STAY)
    assert dones.tolist() == [True, False]
    assert infos[0]["lost_step"]
    assert infos[0]["terminal_observation"]["desired_goal"] == before["desired_goal"][0]


def test_a_process_that_hangs_does_not_keep_the_rest_from_ending(tmp_path, monkeypatch):
    monkeypatch.setattr(subproc, "CLOSING", 0.5)
    envs = make_goal_envs(mortal("hang", tmp_path, at=1), 2, vec_env="subproc")
    envs.reset()
    envs.step_async(STAY)
    started = time.monotonic()
    envs.close()
    assert time.monotonic() - started < 3
    assert not any(process.is_alive() for process in envs.venv.processes)


class Held:
    """Answers after some seconds of work, of a clock that jumps while all of us are held."""

    def __init__(self, works: float, held_at: float, held: float) -> None:
        self.now, self.works, self.held_at, self.held = 0.0, works, held_at, held

    def poll(self, seconds: float) -> bool:
        worked = min(seconds, self.works)
        self.now += worked
        self.works -= worked
        if self.now >= self.held_at:
            self.now, self.held_at = self.now + self.held, np.inf
        return self.works == 0


@pytest.mark.parametrize(
    ("works", "held_at", "in_time"), [(4.0, np.inf, True), (4.0, 2.0, True), (7.0, np.inf, False), (7.0, 2.0, False)]
)
def test_patience_does_not_run_out_while_all_are_held(monkeypatch, works, held_at, in_time):
    remote = Held(works, held_at, held=600)
    monkeypatch.setattr(subproc.time, "monotonic", lambda: remote.now)
    assert subproc.Patience(5.0).waits(remote) == in_time


def test_several_answers_share_one_patience(monkeypatch):
    patience, remotes = subproc.Patience(5.0), [Held(3.0, np.inf, 0), Held(3.0, np.inf, 0)]
    monkeypatch.setattr(subproc.time, "monotonic", lambda: sum(remote.now for remote in remotes))
    assert [patience.waits(remote) for remote in remotes] == [True, False]


TRAIN = ("train", "algo=sac", "env=Mortal-v0", "env.modules=[hostile_envs]", *TINY)


@pytest.mark.parametrize(("engine", "normalised"), [("rlher", "true"), ("sb3", "false")])
def test_training_goes_on_and_learns_from_nothing_that_did_not_happen(rlher, tmp_path, monkeypatch, engine, normalised):
    (tmp_path / "marks").mkdir()
    models = []
    build = setup.build_model
    monkeypatch.setattr(setup, "build_model", lambda *arguments: models.append(build(*arguments)) or models[-1])
    deaths = f"env.kwargs={{how:kill,marks:{tmp_path / 'marks'},times:6,at:0,chance:0.05}}"
    words = (f"engine={engine}", f"normalize.enabled={normalised}", "eval.freq=300", "env.max_restarts=9")
    done = rlher(*TRAIN, deaths, *words, "n_envs=3", "total_timesteps=600", "checkpoint.every=150")
    assert done.code == 0, done.err
    assert done.err.count("killed by SIGKILL") == 6
    folder = tmp_path / "logs/sac/Mortal-v0_1"
    assert pd.read_csv(folder / "progress.csv")["env/restarts"].max() == 6
    assert json.loads((folder / "result.json").read_text())["status"] == "finished"
    buffer = models[0].replay_buffer
    assert buffer.n_transitions == 600 - 6
    storage = buffer.storage
    rows = np.concatenate([storage.rows_of(ring.newest(ring.count)) for ring in storage.rings])
    moved = storage.achieved[rows + 1] - storage.achieved[rows]
    np.testing.assert_allclose(moved, storage.rows["_action"][rows], atol=1e-5)


def test_a_run_that_lost_a_process_can_be_gone_on_with(rlher, tmp_path):
    """Its last episodes cannot be played again to where they were, and are cut."""
    deaths = f"env.kwargs={{how:kill,marks:{tmp_path},times:2,at:0,chance:0.05}}"
    assert rlher(*TRAIN, deaths, "n_envs=2", "total_timesteps=200").err.count("killed by SIGKILL") == 2
    done = rlher("train", "--resume", "logs/sac/Mortal-v0_1", "total_timesteps=400")
    assert done.code == 0, done.err
    assert "running episodes are cut" in done.err
    assert "Traceback" not in done.err
    assert json.loads((tmp_path / "logs/sac/Mortal-v0_1/result.json").read_text())["timesteps"] == 400


def test_a_run_whose_environment_always_dies_ends_with_a_sentence_and_a_model(rlher, tmp_path):
    deaths = f"env.kwargs={{how:segfault,marks:{tmp_path},times:100,at:1}}"
    done = rlher(*TRAIN, deaths, "n_envs=2", "total_timesteps=600", "env.max_restarts=1")
    assert done.code == 1
    assert "died (killed by SIGSEGV), after 1 restart without a finished episode. What was learnt" in done.err
    assert "Traceback" not in done.err
    assert rlher("evaluate", "--episodes", "1").code == 0


def test_a_limit_that_cannot_be_kept_is_said(rlher, tmp_path):
    words = (*TRAIN, f"env.kwargs={{how:kill,marks:{tmp_path}}}", "total_timesteps=60")
    assert "env.step_timeout=5 cannot be kept" in rlher(*words, "env.step_timeout=5").err
    assert "step_timeout" not in rlher(*words).err
