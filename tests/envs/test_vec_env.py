"""Vectorised environments: seeds, success in Monitor, and the same faults with and without worker processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hostile_envs import hostile

from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError
from rlher.core.workers import WorkerLost
from rlher.envs.vec_env import make_vec_env


def rollout(envs, steps: int = 30) -> list[dict]:
    """Take random actions; return the episode info of every finished episode."""
    envs.reset()
    finished = []
    for _ in range(steps):
        _, _, _, infos = envs.step(np.stack([envs.action_space.sample() for _ in range(envs.num_envs)]))
        finished += [info["episode"] for info in infos if "episode" in info]
    return finished


@pytest.mark.parametrize("name", ["RaisesInStep", "RaisesInReset", "PanicsInStep"])
def test_a_fault_has_the_same_message_with_and_without_workers(group, name, capfd):
    messages = []
    for n_envs, vec_env in ((1, "dummy"), (2, "subproc")):
        with pytest.raises(RunError, match=f"{name}-v0") as fault:
            rollout(group(hostile(name), n_envs, vec_env=vec_env))
        messages.append(str(fault.value))
    assert messages[0] == messages[1]
    assert "Traceback" not in capfd.readouterr().err


def test_ctrl_c_in_an_environment_is_not_its_own_cause(monkeypatch):
    envs = make_vec_env(hostile("LineEnv"))
    monkeypatch.setattr(envs.envs[0].unwrapped, "reset", lambda **_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt) as caught:
        envs.reset()
    assert caught.value.__cause__ is None


def test_workers_ignore_the_signals_of_a_run(group):
    envs = group(hostile("LineEnv"))
    pids = [worker.process.pid for worker in envs.workers]
    server = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(") ")[2].split()[1])
    for pid in (*pids, server):
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
    time.sleep(0.1)
    assert len(rollout(envs)) > 0
    os.kill(envs.workers[0].process.pid, signal.SIGKILL)
    with pytest.raises(WorkerLost, match="killed by SIGKILL"):  # the fork server is alive and knows the exit status
        rollout(envs, 1)


def test_a_worker_imports_a_module_of_the_working_folder(group, tmp_path, monkeypatch):
    (tmp_path / "envs_of_this_folder.py").write_text(
        "import gymnasium as gym\nfrom hostile_envs import LineEnv\ngym.register(id='Here-v0', entry_point=LineEnv)"
    )
    monkeypatch.chdir(tmp_path)
    config = EnvConfig(id="Here-v0", modules=["envs_of_this_folder"], max_episode_steps=5)
    assert len(rollout(group(config), 10)) >= 2


def test_a_method_that_raises_in_a_worker_is_a_fault(group):
    envs = group(hostile("LineEnv"))
    with pytest.raises(RunError, match="compute_reward raised TypeError"):
        envs.env_method("compute_reward", "far", None, {}, indices=[1])


@pytest.mark.parametrize("vec_env", ["dummy", "subproc"])
def test_starts_differ_between_environments_and_seeds(vec_env):
    starts = []
    for seed in (0, 1, 0):
        envs = make_vec_env(hostile("LineEnv"), 3, seed, vec_env)
        starts.append(envs.reset()["desired_goal"][:, 0])
        envs.close()
    assert len({*starts[0], *starts[1]}) == 6
    assert starts[0].tolist() == starts[2].tolist()


def test_workers_draw_different_numbers_from_global_generators_and_repeat_them():
    """All workers are forks of one process, with one state of the global generators."""

    def goals(seed: int) -> list[np.ndarray]:
        envs = make_vec_env(hostile("GlobalGenerator", max_episode_steps=2), 2, seed, vec_env_type="subproc")
        drawn = [envs.reset()["desired_goal"].ravel()]
        drawn += [envs.step(np.zeros((2, 1)))[0]["desired_goal"].ravel() for _ in range(4)]
        drawn.append(np.array(envs.get_attr("offset")))
        envs.close()
        return drawn

    first, again, other = goals(0), goals(0), goals(1)
    assert np.array_equal(first, again)
    for numbers in (first, other):
        assert all(pair[0] != pair[1] for pair in numbers), "environments differ"
    assert not np.isin(first, other).any(), "seeds differ"


@pytest.mark.parametrize("config", [hostile("LineEnv"), hostile("Silent", success_reward=0.0)], ids=lambda env: env.id)
def test_the_episode_info_has_is_success_from_a_key_or_the_reward(group, config):
    episodes = rollout(group(config, 1, 3, "dummy"), 200)
    assert {episode["is_success"] for episode in episodes} == {True, False}
    assert all(episode["l"] <= 20 for episode in episodes)


def test_an_episode_without_a_success_key_is_a_fault():
    envs = make_vec_env(hostile("Silent"), 1)
    with pytest.raises(RunError, match=r"'is_success' or 'success'.*env.success_key"):
        rollout(envs, 40)


def test_envs_imports_no_torch():
    heavy = "[m for m in ('torch', 'stable_baselines3', 'highway_env') if m in sys.modules]"
    code = f"import sys, rlher.envs, rlher.envs.registration, rlher.envs.contract; print({heavy})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
