"""Worker processes that die or hang are replaced, and their lost steps are not stored."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hostile_envs import hostile

from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError
from rlher.envs.vec_env import make_vec_env
from rlher.training import preparation
from rlher.training.callbacks.checkpoint import NOT_REPEATABLE
from tests.conftest import TINY

pytestmark = pytest.mark.usefixtures("many_cores")


def failing_worker(how: str, marks: Path, keys: dict | None = None, **kwargs) -> EnvConfig:
    return hostile("FailingWorker", kwargs=dict(how=how, marks=str(marks), **kwargs), **keys or {})


NO_ACTIONS = np.zeros((2, 1), dtype=np.float32)


@pytest.mark.parametrize(
    ("how", "reason", "cores"),
    [
        ("kill", "died (killed by SIGKILL)", 1),
        ("kill", "died (killed by SIGKILL)", 2),
        ("exit", "died (exit status 7)", 3),
        ("hang", "hung (no answer in 1 s)", 3),
    ],
)
def test_all_workers_are_replaced_if_one_is_lost(group, tmp_path, monkeypatch, capfd, how, reason, cores):
    monkeypatch.setattr("rlher.envs.vec_env.available_cores", lambda: cores)
    envs = group(failing_worker(how, tmp_path, {"step_timeout": 1.0} if how == "hang" else {}), 3)
    assert len(envs.workers) == cores
    actions = np.zeros((3, 1), dtype=np.float32)
    before = [envs.step(actions)[0] for _ in range(2)][-1]
    after, _, dones, infos = envs.step(actions)
    assert dones.all()
    for index, info in enumerate(infos):
        assert info["lost_step"]
        assert info["TimeLimit.truncated"]
        assert after["achieved_goal"][index] != before["achieved_goal"][index]
        for key, value in info["terminal_observation"].items():
            assert value == before[key][index], "the last observation of the episode"
    assert envs.restarts == 1
    err = capfd.readouterr().err
    assert err.count(reason) == 1
    assert "Traceback" not in err
    for _ in range(30):
        *_, infos = envs.step(actions)
        assert not any("lost_step" in info for info in infos)


def test_a_step_timeout_is_the_limit_of_one_environment(group, tmp_path, monkeypatch):
    monkeypatch.setattr("rlher.envs.vec_env.available_cores", lambda: 1)
    envs = group(failing_worker("wait", tmp_path, {"step_timeout": 2.0}, times=6, at=1), 6)
    started = time.monotonic()
    envs.step(np.zeros((6, 1), dtype=np.float32))
    assert time.monotonic() - started > 2.3, "longer than the limit"
    assert envs.restarts == 0


def test_a_worker_lost_while_it_builds_its_environment_is_replaced(group, tmp_path, capfd):
    envs = group(failing_worker("kill", tmp_path, times=2, where="init"))
    assert 1 <= envs.restarts <= 2, "both may be lost at once"
    assert envs.step(NO_ACTIONS)[1].tolist() == [-1, -1]
    assert "Traceback" not in capfd.readouterr().err


def test_workers_that_cannot_build_their_environment_are_a_fault_and_all_end(tmp_path):
    before = set(multiprocessing.active_children())
    with pytest.raises(RunError, match="exit status 7"):
        make_vec_env(failing_worker("exit", tmp_path, times=100, where="init"), 2, vec_env="subproc")
    assert set(multiprocessing.active_children()) <= before


def test_a_run_with_the_same_losses_repeats_itself(group, tmp_path):
    starts = []
    for number in range(2):
        (marks := tmp_path / str(number)).mkdir()
        envs = group(failing_worker("exit", marks, times=8, at=1), seed=3)
        goals = [envs.step(NO_ACTIONS)[0]["desired_goal"][:, 0] for _ in range(4)]
        starts.append(np.stack(goals))
    assert (starts[0] == starts[1]).all()
    assert len(np.unique(starts[0])) == 8, "every restart has another start"


def test_more_than_max_restarts_in_a_row_is_a_fault(group, tmp_path):
    envs = group(failing_worker("exit", tmp_path, {"max_restarts": 2}, times=100, at=1))
    for _ in range(2):
        envs.step(NO_ACTIONS)
    with pytest.raises(RunError, match=r"FailingWorker-v0.*exit status 7.*2 restarts"):
        envs.step(NO_ACTIONS)


def test_a_finished_episode_resets_the_count_of_restarts(group):
    envs = group(hostile("LineEnv", max_restarts=1), 1)
    for _ in range(4):
        os.kill(envs.workers[0].process.pid, signal.SIGKILL)
        assert "lost_step" in envs.step(NO_ACTIONS[:1])[3][0]
        while not envs.step(NO_ACTIONS[:1])[2].any():
            pass
    assert envs.restarts == 4


def test_a_worker_lost_between_two_steps_ends_the_episode(group):
    """get_attr asks the first worker, whose next action then belongs to the lost episode; compute_reward asks none."""
    envs = group(hostile("LineEnv"))
    before, *_ = envs.step(NO_ACTIONS)
    os.kill(envs.workers[0].process.pid, signal.SIGKILL)
    assert envs.env_method("compute_reward", np.zeros((4, 1)), np.zeros((4, 1)), {}, indices=[0])[0].tolist() == [0] * 4
    assert envs.restarts == 0
    envs.get_attr("metadata", indices=[0])
    _, _, dones, infos = envs.step(NO_ACTIONS)
    assert dones.all()
    assert infos[0]["lost_step"]
    assert infos[0]["terminal_observation"]["desired_goal"] == before["desired_goal"][0]


TRAIN = ("train", "algo=sac", "env=FailingWorker-v0", "env.modules=[hostile_envs]", *TINY)


@pytest.mark.parametrize("normalised", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_training_continues_without_storing_lost_steps(rlher, tmp_path, monkeypatch, normalised):
    (tmp_path / "marks").mkdir()
    models = []
    build = preparation.build_model
    monkeypatch.setattr(preparation, "build_model", lambda *arguments: models.append(build(*arguments)) or models[-1])
    failures = f"env.kwargs={{how:kill,marks:{tmp_path / 'marks'},times:6,at:0,chance:0.05}}"
    words = (f"normalize.enabled={normalised}", "eval.freq=300", "env.max_restarts=9")
    done = rlher(*TRAIN, failures, *words, "n_envs=3", "total_timesteps=600", "checkpoint.freq=150")
    assert done.code == 0, done.err
    losses = done.err.count("killed by SIGKILL")
    assert 3 <= losses <= 6, "several environments may fail in one step"
    folder = tmp_path / "logs/sac/FailingWorker-v0_1"
    assert pd.read_csv(folder / "progress.csv")["env/restarts"].max() == losses
    assert json.loads((folder / "result.json").read_text())["status"] == "finished"
    buffer = models[0].replay_buffer
    assert buffer.n_transitions == 600 - 3 * losses
    storage = buffer.storage
    positions = storage.positions(storage.all_ids())
    rows = storage.rows[positions]
    expected = np.clip(rows["obs"]["achieved_goal"] + rows["action"], -10, 10)
    np.testing.assert_allclose(storage.next_achieved[positions], expected, atol=1e-5)


def test_a_run_that_lost_a_worker_can_be_resumed(rlher, tmp_path):
    """Its running episodes cannot be replayed and are truncated."""
    failures = f"env.kwargs={{how:kill,marks:{tmp_path},times:2,at:0,chance:0.05}}"
    assert rlher(*TRAIN, failures, "n_envs=2", "total_timesteps=200").err.count("killed by SIGKILL") == 2
    done = rlher("train", "--resume", "logs/sac/FailingWorker-v0_1", "total_timesteps=400")
    assert done.code == 0, done.err
    assert NOT_REPEATABLE in done.err
    assert json.loads((tmp_path / "logs/sac/FailingWorker-v0_1/result.json").read_text())["timesteps"] == 400


def test_a_run_whose_environment_always_dies_ends_with_a_message_and_a_model(rlher, tmp_path):
    failures = f"env.kwargs={{how:segfault,marks:{tmp_path},times:100,at:1}}"
    done = rlher(*TRAIN, failures, "n_envs=2", "total_timesteps=600", "env.max_restarts=1")
    assert done.code == 1
    assert "killed by SIGSEGV" in done.err
    assert rlher("evaluate", "--episodes", "1").code == 0
