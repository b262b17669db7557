"""`rlher collect`: what it writes, which agents and controllers it plays, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.envs.make import make_env
from rlher.her.datasets import collected_env, read_dataset
from rlher.her.trajectories import Trajectory
from rlher.run import lookup
from tests.conftest import TINY, mounted

RLHER = (sys.executable, "-m", "rlher")
BITS = ("env=BitFlipping-v0", "env.kwargs.n_bits=5")

CONTROLLERS = '''
import os, signal
import numpy as np

calls = 0

def first_wrong(observation):
    return int(np.argmax(observation["achieved_goal"] != observation["desired_goal"]))

def last_wrong(observation):
    """Solves the task only if the last bit of the goal is 1."""
    return first_wrong(observation) if observation["desired_goal"][-1] else 0

def never(observation):
    return 0

def at_call(number, happen):
    global calls
    calls += 1
    if calls == number:
        happen()

def interrupted(observation):
    at_call(12, lambda: os.kill(os.getpid(), signal.SIGINT))
    return first_wrong(observation)

def failing(observation):
    at_call(12, lambda: 1 / 0)
    return first_wrong(observation)
'''

WITH_MINARI = """
import sys, minari
dataset = minari.load_dataset("bits-v0")
assert not any(name.split(".")[0] == "rlher" for name in sys.modules)
print(len(dataset), dataset.total_steps, dataset.env_spec.id, dataset.spec.dataset_id)
ends = [[len(ep.actions), ep.rewards[-1], ep.terminations[-1], ep.infos["is_success"][-1]] for ep in dataset]
print([[length, int(reward), bool(end), bool(success)] for length, reward, end, success in ends])
print(list(minari.list_local_datasets()))
"""
"""Open a dataset with plain Minari."""


@pytest.fixture(autouse=True)
def _controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bit_controllers.py").write_text(CONTROLLERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("bit_controllers", None)


def read(folder: str) -> list[Trajectory]:
    env = BitFlippingEnv(n_bits=5)
    return read_dataset(folder, env.observation_space, env.action_space)


def metadata(folder: str) -> dict:
    return json.loads(Path(folder, "data/metadata.json").read_text())


def test_a_controller_of_the_user_whose_dataset_plain_minari_opens(rlher) -> None:
    words = ("controller=bit_controllers:first_wrong", "episodes=6", "output=data/bits-v0", "json=true")
    done = rlher("collect", *BITS, *words)
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    trajectories = read("data/bits-v0")
    assert (printed["folder"], printed["episodes"], printed["success_rate"]) == ("data/bits-v0", 6, 1)
    assert printed["steps"] == sum(map(len, trajectories))
    assert collected_env("data/bits-v0") == ("BitFlipping-v0", 1)
    assert metadata("data/bits-v0")["rlher"]["controller"] == "bit_controllers:first_wrong"
    for trajectory in trajectories:
        assert trajectory.terminated
        assert (trajectory.rewards == [*[-1] * (len(trajectory) - 1), 0]).all()
        assert (trajectory.observations["achieved_goal"][-1] == trajectory.observations["desired_goal"][-1]).all()
    environment = {**os.environ, "MINARI_DATASETS_PATH": "data"}
    shown = subprocess.run([sys.executable, "-c", WITH_MINARI], env=environment, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        f"6 {printed['steps']} BitFlipping-v0 bits-v0",
        str([[len(trajectory), 0, True, True] for trajectory in trajectories]),
        "['bits-v0']",
    ]


def test_only_successes(rlher) -> None:
    words = ("collect", *BITS, "controller=bit_controllers:last_wrong", "--episodes", "5", "--successes-only", "--json")
    done = rlher(*words)
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["episodes"] == printed["successes"] == 5 < printed["played"]
    assert all(trajectory.rewards[-1] == 0 for trajectory in read(printed["folder"]))
    assert metadata(printed["folder"])["rlher"]["success_rate"] == 5 / printed["played"]


@pytest.mark.parametrize(("controller", "code", "steps"), [("interrupted", 130, 16), ("failing", 1, 11)])
def test_ctrl_c_and_a_failure_keep_the_episodes_until_then(rlher, controller: str, code: int, steps: int) -> None:
    done = rlher("collect", *BITS, f"controller=bit_controllers:{controller}", "--episodes", "50")
    assert done.code == code
    trajectories = read(f"demos/BitFlipping-v0-{controller}-v0")
    assert 2 <= len(trajectories) < 10
    assert sum(map(len, trajectories)) <= steps, "after Ctrl-C the running episode is the last"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_datasets_are_numbered_and_never_replaced(rlher) -> None:
    words = ("collect", *BITS, "controller=bit_controllers:never", "--episodes", "1")
    for number in range(2):
        assert rlher(*words).code == 0
        assert Path(f"demos/BitFlipping-v0-never-v{number}/data/metadata.json").exists()
    assert rlher(*words, "--output", "demos/BitFlipping-v0-never-v1").code == 2
    assert sorted(path.name for path in Path("demos").iterdir()) == [f"BitFlipping-v0-never-v{n}" for n in range(2)]


@pytest.mark.slow
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """HDF5 would crash the process at its end."""
    words = ("collect", *BITS, "controller=bit_controllers:first_wrong", "episodes=2", "output=disk/bits-v0")
    (tmp_path / "disk").mkdir()
    with mounted(tmp_path / "disk", "size=40k"):
        done = subprocess.run([*RLHER, *words], cwd=tmp_path, capture_output=True, text=True)
        left = list((tmp_path / "disk").iterdir())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not left


def test_the_agent_of_a_run(rlher) -> None:
    assert rlher("train", *TINY, *BITS, "algo=dqn", "total_timesteps=60").code == 0
    done = rlher("collect", "logs/dqn/BitFlipping-v0_1", "--episodes", "2", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["folder"] == "demos/BitFlipping-v0-dqn-v0"
    assert "logs/dqn/BitFlipping-v0_1" in metadata("demos/BitFlipping-v0-dqn-v0")["algorithm_name"]


def test_goals_of_a_relay_agent_are_the_environments_own(rlher) -> None:
    done = rlher("collect", "agent=ddpg-FetchPush-v4", "--episodes", "2", "--json")
    assert done.code == 0, done.err
    config = lookup.open_run(str(lookup.pretrained_agent_folder("ddpg-FetchPush-v4")), "logs").config.env
    config.relay.enabled = False
    env = make_env(config)
    trajectories = read_dataset(json.loads(done.out)["folder"], env.observation_space, env.action_space)
    observation, _ = env.reset(seed=2_000_000)
    for key, values in trajectories[0].observations.items():
        assert np.array_equal(values[0], observation[key])
    assert json.loads(done.out)["successes"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("controller=scripted",),
        ("env=BitFlipping-v0",),
        ("env=BitFlipping-v0", "controller=act"),
        ("env=BitFlipping-v0", "controller=nowhere:act"),
        ("env=BitFlipping-v0", "controller=bit_controllers:missing"),
        ("env=BitFlipping-v0", "controller=bit_controllers:calls"),
        ("env=BitFlipping-v0", "controller=scripted"),
        ("env=BitFlipping-v0", "controller=scripted", "agent=ddpg-FetchPush-v4"),
        ("logs/none",),
    ],
)
def test_what_cannot_be_played_is_refused(rlher, words) -> None:
    assert rlher("collect", *words).code == 2
    assert not Path("demos").exists()


def test_a_dataset_is_watched_as_it_was_recorded(rlher) -> None:
    names = (*BITS, "controller=bit_controllers:last_wrong", "--episodes", "4")
    assert rlher("collect", *names, "--output", "demos/bits-v0").code == 0
    again = rlher("enjoy", "demos/bits-v0", *BITS, "--json", "--video", "again.gif")
    live = rlher("enjoy", *names, "--seed", "2000000", "--json", "--video", "live.gif")
    assert json.loads(again.out)["episodes"] == json.loads(live.out)["episodes"], again.err + live.err
    assert Path("again.gif").read_bytes() == Path("live.gif").read_bytes()
    assert rlher("enjoy", "demos/bits-v0").code == 2, "its n_bits is not that of BitFlipping-v0"
