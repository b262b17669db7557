"""If a worker process dies or hangs, all environments are built again, and the step without a result is not stored."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import numpy as np
import pandas as pd
import pytest
from hostile_envs import hostile
from stable_baselines3.common.vec_env import VecEnv

from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError
from rlher.core.workers import WorkerLost
from rlher.envs.rebuildable_vec_env import RebuildableVecEnv
from rlher.envs.vec_env import make_vec_env
from rlher.training import preparation
from rlher.training.checkpointer import NOT_REPEATABLE
from tests.conftest import TINY

pytestmark = pytest.mark.usefixtures("many_cores")


def failing_worker(how: str, marks: Path, keys: dict | None = None, **kwargs) -> EnvConfig:
    return hostile("FailingWorker", kwargs=dict(how=how, marks=str(marks), **kwargs), **keys or {})


NO_ACTIONS = np.zeros((2, 1), dtype=np.float32)


@pytest.fixture
def rebuildable() -> Iterator[Callable[..., RebuildableVecEnv]]:
    """Build environments that can be built again, and reset them; they are closed after the test."""
    with ExitStack() as stack:

        def make(config: EnvConfig, n_envs: int = 2, seed: int = 0) -> RebuildableVecEnv:
            build = partial(make_vec_env, config, n_envs, vec_env_type="subproc")
            envs = stack.enter_context(closing(RebuildableVecEnv(build, seed, config.max_restarts)))
            envs.reset()
            return envs

        yield make


def lose_and_rebuild(envs: RebuildableVecEnv, actions: np.ndarray = NO_ACTIONS) -> tuple[WorkerLost, dict]:
    """Take a step in which a worker is lost; return the loss, and the observations of the new environments."""
    with pytest.raises(WorkerLost) as lost:
        envs.step(actions)
    return lost.value, envs.replace_lost(lost.value)


@pytest.mark.parametrize(
    ("how", "reason", "cores"),
    [
        ("kill", "died (killed by SIGKILL)", 1),
        ("kill", "died (killed by SIGKILL)", 2),
        ("exit", "died (exit status 7)", 3),
        pytest.param("hang", "hung (no answer in 1 s)", 3, marks=pytest.mark.slow),
    ],
)
def test_all_environments_are_built_again_if_a_worker_is_lost(
    rebuildable, tmp_path, monkeypatch, capfd, how, reason, cores
):
    monkeypatch.setattr("rlher.envs.vec_env.available_cores", lambda: cores)
    envs = rebuildable(failing_worker(how, tmp_path, {"step_timeout": 1.0} if how == "hang" else {}), 3)
    assert len(envs.unwrapped.workers) == cores
    actions = np.zeros((3, 1), dtype=np.float32)
    before = [envs.step(actions)[0] for _ in range(2)][-1]
    lost, after = lose_and_rebuild(envs, actions)
    assert reason in str(lost)
    assert (after["achieved_goal"] != before["achieved_goal"]).all()
    assert (envs.restart_limit.total, envs.build_number, envs.actions) == (1, 1, [])
    assert "Traceback" not in capfd.readouterr().err
    for _ in range(30):
        envs.step(actions)


def test_a_step_timeout_is_the_limit_of_one_environment(group, tmp_path, monkeypatch):
    monkeypatch.setattr("rlher.envs.vec_env.available_cores", lambda: 1)
    envs = group(failing_worker("wait", tmp_path, {"step_timeout": 2.0}, times=6, at=1), 6)
    started = time.monotonic()
    envs.step(np.zeros((6, 1), dtype=np.float32))
    assert time.monotonic() - started > 2.3, "longer than the limit"


def test_workers_that_cannot_build_their_environment_are_a_fault_and_all_end(tmp_path):
    before = set(multiprocessing.active_children())
    with pytest.raises(RunError, match="exit status 7"):
        make_vec_env(failing_worker("exit", tmp_path, times=100, where="init"), 2, vec_env_type="subproc")
    assert set(multiprocessing.active_children()) <= before


def test_a_run_with_the_same_losses_repeats_itself(rebuildable, tmp_path):
    starts = []
    for number in range(2):
        (marks := tmp_path / str(number)).mkdir()
        envs = rebuildable(failing_worker("exit", marks, times=8, at=1), seed=3)
        starts.append(np.stack([lose_and_rebuild(envs)[1]["desired_goal"][:, 0] for _ in range(4)]))
    assert (starts[0] == starts[1]).all()
    assert len(np.unique(starts[0])) == 8, "every restart has another start"


def test_more_than_max_restarts_in_a_row_is_a_fault(rebuildable, tmp_path):
    envs = rebuildable(failing_worker("exit", tmp_path, {"max_restarts": 2}, times=100, at=1))
    for _ in range(2):
        lose_and_rebuild(envs)
    with pytest.raises(RunError, match=r"FailingWorker-v0.*exit status 7.*2 restarts"):
        lose_and_rebuild(envs)


def test_a_finished_episode_resets_the_count_of_restarts(rebuildable):
    envs = rebuildable(hostile("LineEnv", max_restarts=1), 1)
    for _ in range(4):
        os.kill(envs.unwrapped.workers[0].process.pid, signal.SIGKILL)
        lose_and_rebuild(envs, NO_ACTIONS[:1])
        while not envs.step(NO_ACTIONS[:1])[2].any():
            pass
    assert envs.restart_limit.total == 4


def test_workers_lost_in_the_first_reset_or_while_actions_are_repeated_are_replaced():
    config, builds = hostile("LineEnv"), count()

    def build(seed: int) -> VecEnv:
        envs = make_vec_env(config, 2, seed, "subproc")
        if next(builds) == 2:
            os.kill(envs.workers[0].process.pid, signal.SIGKILL)
        return envs

    with closing(RebuildableVecEnv(build, 0, max_restarts=3)) as envs:
        os.kill(envs.unwrapped.workers[0].process.pid, signal.SIGKILL)
        assert envs.reset()["observation"].shape == (2, 1)
        assert (envs.restart_limit.total, envs.build_number) == (1, 1)
        expected = envs.step(NO_ACTIONS)[0]
        repeated = envs.rebuild(build_number=1, actions=[NO_ACTIONS])
        assert (envs.restart_limit.total, repeated["desired_goal"].tolist()) == (2, expected["desired_goal"].tolist())


def test_episodes_that_are_repeated_do_not_reset_the_count_of_restarts():
    def build(seed: int) -> VecEnv:
        envs = make_vec_env(hostile("LineEnv"), 2, seed)
        envs.step_wait = Mock(wraps=envs.step_wait, side_effect=[*[DEFAULT] * 50, WorkerLost("its process died")])
        return envs

    with closing(RebuildableVecEnv(build, 0, max_restarts=3)) as envs, pytest.raises(RunError, match="3 restarts"):
        envs.rebuild(build_number=1, actions=[NO_ACTIONS] * 60)


def test_a_worker_lost_while_environments_are_built_again_is_another_restart():
    config = hostile("LineEnv")
    builds = count()

    def build(seed: int) -> VecEnv:
        envs = make_vec_env(config, 2, seed, "subproc")
        if next(builds) in (1, 2, 4):
            os.kill(envs.workers[0].process.pid, signal.SIGKILL)
        return envs

    with closing(RebuildableVecEnv(build, 0, max_restarts=3)) as envs:
        envs.reset()
        envs.rebuild()  # as for a checkpoint
        assert (envs.restart_limit.total, envs.build_number) == (2, 3)
        assert envs.step(NO_ACTIONS)[1].tolist() == [-1, -1]
        os.kill(envs.unwrapped.workers[0].process.pid, signal.SIGKILL)
        with pytest.raises(RunError, match="3 restarts"):
            lose_and_rebuild(envs)


def test_compute_reward_asks_no_worker(group):
    envs = group(hostile("LineEnv"))
    os.kill(envs.workers[0].process.pid, signal.SIGKILL)
    assert envs.env_method("compute_reward", np.zeros((4, 1)), np.zeros((4, 1)), {}, indices=[0])[0].tolist() == [0] * 4
    with pytest.raises(WorkerLost):
        envs.get_attr("metadata", indices=[0])


TRAIN = ("train", "algo=sac", "env=FailingWorker-v0", "env.modules=[hostile_envs]", "vec_env=subproc", *TINY)


@pytest.mark.slow
@pytest.mark.parametrize("normalised", ["true", "false"])
def test_training_continues_without_storing_lost_steps(rlher, tmp_path, monkeypatch, normalised):
    (tmp_path / "marks").mkdir()
    models = []
    build = preparation.build_model
    monkeypatch.setattr(preparation, "build_model", lambda *arguments: models.append(build(*arguments)) or models[-1])
    failures = f"env.kwargs={{how:kill,marks:{tmp_path / 'marks'},times:6,at:0,chance:0.05}}"
    words = (f"normalize.enabled={normalised}", "eval.freq=300", "env.max_restarts=9", "algo.gradient_steps=1")
    done = rlher(*TRAIN, failures, *words, "n_envs=3", "total_timesteps=600", "checkpoint.freq=150")
    assert done.code == 0, done.err
    losses = done.err.count("killed by SIGKILL")
    assert 3 <= losses <= 6, "several environments may fail in one step"
    folder = tmp_path / "logs/sac/FailingWorker-v0_1"
    assert pd.read_csv(folder / "progress.csv")["env/restarts"].max() == losses
    assert json.loads((folder / "result.json").read_text())["status"] == "finished"
    buffer = models[0].replay_buffer
    assert buffer.n_transitions == 600, "a step without a result is no step"
    storage = buffer.storage
    positions = storage.positions(storage.all_ids())
    rows = storage.rows[positions]
    expected = np.clip(rows["obs"]["achieved_goal"] + rows["action"], -10, 10)
    np.testing.assert_allclose(storage.next_achieved_goals[positions], expected, atol=1e-5)


@pytest.mark.slow
def test_a_run_that_lost_a_worker_can_be_resumed(rlher, tmp_path):
    failures = f"env.kwargs={{how:kill,marks:{tmp_path},times:2,at:0,chance:0.05}}"
    assert rlher(*TRAIN, failures, "n_envs=2", "total_timesteps=200").err.count("killed by SIGKILL") == 2
    done = rlher("train", "--resume", "logs/sac/FailingWorker-v0_1", "total_timesteps=400")
    assert done.code == 0, done.err
    assert NOT_REPEATABLE not in done.err, "the actions since the environments were built again are repeated"
    assert json.loads((tmp_path / "logs/sac/FailingWorker-v0_1/result.json").read_text())["timesteps"] == 400


def test_a_run_whose_environment_always_dies_ends_with_a_message_and_a_model(rlher, tmp_path):
    failures = f"env.kwargs={{how:segfault,marks:{tmp_path},times:100,at:1}}"
    done = rlher(*TRAIN, failures, "n_envs=2", "total_timesteps=600", "env.max_restarts=1")
    assert done.code == 1
    assert "killed by SIGSEGV" in done.err
    assert rlher("evaluate", "--episodes", "1").code == 0
