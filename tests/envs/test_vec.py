"""Groups of environments: seeds, success in Monitor, and faults told alike from one process and from many."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hostile_envs import LineEnv  # noqa: F401  (registers)

from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault, UserError
from rlher.envs.vec import make_goal_envs


def hostile(name: str, **keys) -> EnvConfig:
    return EnvConfig(id=f"{name}-v0", modules=["hostile_envs"], **keys)


def play(envs, steps: int = 30) -> list[dict]:
    """Play random actions, return the ep_info of every finished episode."""
    envs.reset()
    finished = []
    for _ in range(steps):
        _, _, _, infos = envs.step(np.stack([envs.action_space.sample() for _ in range(envs.num_envs)]))
        finished += [info["episode"] for info in infos if "episode" in info]
    return finished


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "RaisesInStep",
            r"step 4 of an episode raised ValueError: the motor is on fire \(hostile_envs.py, line \d+\)",
        ),
        ("RaisesInReset", r"reset raised ValueError: nothing left to reset"),
        ("NaNReward", r"step 1 of an episode returned a reward of nan"),
        ("HugeReward", r"step 1 of an episode returned a reward of -1e\+39"),
        ("HugeObservation", r"step 1 returned 1e\+39 in 'observation' \(entry 0\)"),
        ("NaNObservation", r"step 2 returned nan in 'achieved_goal' \(entry 0\)"),
        ("ForgetsKey", r"step 1 returned an observation without 'desired_goal'"),
        ("WrongShape", r"reset returned 'observation' of shape \(3,\), declared was \(1,\)"),
    ],
)
def test_a_fault_is_one_sentence_alike_from_one_process_and_many(name, told, capfd):
    sentences = []
    for n_envs, vec_env in ((1, "dummy"), (2, "subproc")):
        envs = make_goal_envs(hostile(name), n_envs, vec_env=vec_env)
        try:
            with pytest.raises(EnvironmentFault, match=rf"{name}-v0: {told}") as fault:
                play(envs)
        finally:
            envs.close()
        sentences.append(str(fault.value))
    assert sentences[0] == sentences[1]
    assert "Traceback" not in capfd.readouterr().err


def test_a_dead_process_is_told_and_closed(capfd):
    envs = make_goal_envs(hostile("Dies"), 2, vec_env="subproc")
    start = time.monotonic()
    with pytest.raises(EnvironmentFault, match=r"Dies-v0: the process of environment 0 died \(exit status 7\)"):
        play(envs)
    envs.close()
    assert time.monotonic() - start < 10
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_all_are_the_main_processs_business(number, capfd):
    envs = make_goal_envs(hostile("LineEnv"), 2, vec_env="subproc")
    envs.reset()
    pids = [process.pid for process in envs.venv.processes]
    server = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(") ")[2].split()[1])
    for pid in (*pids, server):
        os.kill(pid, number)
    time.sleep(0.1)
    assert len(play(envs)) > 0
    assert envs.restarts == 0
    os.kill(envs.venv.processes[0].pid, signal.SIGKILL)
    play(envs, 1)
    assert "died (killed by SIGKILL)" in capfd.readouterr().err, "the server lives, and knows it"
    envs.close()


def test_a_group_that_nobody_closes_does_not_keep_the_program_from_ending():
    program = (
        "from rlher.config.environment import EnvConfig\n"
        "from rlher.envs.vec import make_goal_envs\n"
        "envs = make_goal_envs(EnvConfig(id='BitFlipping-v0'), 2)\n"
        "envs.reset()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_worker_finds_a_module_in_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "envs_of_this_folder.py").write_text(
        "import gymnasium as gym\nfrom hostile_envs import LineEnv\ngym.register(id='Here-v0', entry_point=LineEnv)"
    )
    monkeypatch.chdir(tmp_path)
    envs = make_goal_envs(EnvConfig(id="Here-v0", modules=["envs_of_this_folder"], max_episode_steps=5), 2)
    assert len(play(envs, 10)) >= 2
    envs.close()


def test_a_method_that_raises_in_a_worker_is_told():
    envs = make_goal_envs(hostile("LineEnv"), 2, vec_env="subproc")
    try:
        with pytest.raises(EnvironmentFault, match="compute_reward raised TypeError"):
            envs.env_method("compute_reward", "far", None, {}, indices=[1])
        rewards = envs.env_method("compute_reward", np.zeros((4, 1)), np.zeros((4, 1)), {}, indices=[0])
        assert rewards[0].tolist() == [0.0] * 4
    finally:
        envs.close()


@pytest.mark.parametrize("vec_env", ["dummy", "subproc"])
def test_every_environment_and_every_seed_has_its_own_starts(vec_env):
    starts = []
    for seed in (0, 1, 0):
        envs = make_goal_envs(hostile("LineEnv"), 3, seed, vec_env)
        starts.append(envs.reset()["desired_goal"][:, 0])
        envs.close()
    assert len({*starts[0], *starts[1]}) == 6
    assert starts[0].tolist() == starts[2].tolist()


def test_stable_baselines_own_seeding_keeps_them_apart():
    envs = make_goal_envs(hostile("LineEnv"), 2, 0)
    envs.seed(0)
    first = envs.reset()["desired_goal"]
    envs.seed(1)  # what SAC(seed=1) calls
    second = envs.reset()["desired_goal"]
    envs.close()
    assert len({*first[:, 0], *second[:, 0]}) == 4


def test_success_reaches_the_episode_info_under_one_name():
    envs = make_goal_envs(hostile("LineEnv"), 1, 3)
    episodes = play(envs, 200)
    envs.close()
    assert {episode["is_success"] for episode in episodes} == {True, False}
    assert all(episode["l"] <= 20 for episode in episodes)


def test_a_crash_reaches_the_episode_info():
    envs = make_goal_envs(hostile("Crashes", crash_key="crashed"), 1, 3)
    crashes = [episode["is_crash"] for episode in play(envs, 200)]
    envs.close()
    assert any(crashes)
    assert not all(crashes)


def test_without_a_word_on_success_nothing_is_silently_called_failure():
    envs = make_goal_envs(hostile("Silent"), 1)
    with pytest.raises(EnvironmentFault, match=r"no 'is_success' or 'success'.*set env.success_key"):
        play(envs, 40)


def test_without_a_word_on_success_the_reward_can_say_it():
    envs = make_goal_envs(hostile("Silent", success_reward=0.0), 1)
    successes = {episode["is_success"] for episode in play(envs, 200)}
    assert successes == {True, False}


def test_the_users_mistakes_are_told_before_any_process_starts():
    with pytest.raises(UserError, match=r"called 'FetchReech-v4' \(did you mean 'FetchReach-v4'"):
        make_goal_envs(EnvConfig(id="FetchReech-v4"), 8)


def test_auto_is_one_process_for_one_environment():
    envs = make_goal_envs(hostile("LineEnv"), 1)
    assert not hasattr(envs.venv, "processes")
    envs.close()
    envs = make_goal_envs(hostile("LineEnv"), 2)
    assert len(envs.venv.processes) == 2
    envs.close()


def test_envs_alone_imports_no_torch():
    import subprocess

    heavy = "[m for m in ('torch', 'stable_baselines3', 'highway_env') if m in sys.modules]"
    code = f"import sys, rlher.envs, rlher.envs.catalog, rlher.envs.contract.checker; print({heavy})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
