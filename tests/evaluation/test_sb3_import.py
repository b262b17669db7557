"""Models of plain SB3 and RL Zoo: unpickled with ``--trust-pickle`` only."""

import base64
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import gymnasium as gym
import pytest
from stable_baselines3 import DQN, PPO, SAC, HerReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from rlher.envs.registration import ensure_registered
from rlher.evaluation.rollout import evaluate_policy
from tests.conftest import TINY, Outcome

BITS = "env=BitFlipping-v0"


def bit_flipping(**kwargs: bool) -> DummyVecEnv:
    ensure_registered("BitFlipping-v0", [])
    return DummyVecEnv([lambda: gym.make("BitFlipping-v0", n_bits=15, **kwargs)])


def trained(algorithm: type, env: VecEnv):
    small = {"buffer_size": 1000, "learning_starts": 20, "policy_kwargs": {"net_arch": [16]}}
    return algorithm("MultiInputPolicy", env, replay_buffer_class=HerReplayBuffer, **small).learn(60)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A folder of RL Zoo: a model trained by plain SB3, with its normaliser in a subfolder."""
    env = VecNormalize(bit_flipping(continuous=True), norm_reward=False)
    folder = tmp_path / "zoo/sac/BitFlipping-v0_1"
    (folder / "BitFlipping-v0").mkdir(parents=True)
    trained(SAC, env).save(folder / "BitFlipping-v0.zip")
    env.save(str(folder / "BitFlipping-v0/vecnormalize.pkl"))
    return folder / "BitFlipping-v0.zip"


def test_a_trusted_model_acts_as_it_does_in_plain_sb3(zoo: Path, rlher: Callable[..., Outcome]) -> None:
    env = VecNormalize.load(str(zoo.parent / "BitFlipping-v0/vecnormalize.pkl"), bit_flipping(continuous=True))
    model = SAC.load(zoo, env=env, device="cpu")
    single = env.venv.envs[0]

    def policy(observation):
        return model.predict(env.normalize_obs(observation), deterministic=True)[0]

    expected = evaluate_policy(single, policy, episodes=8, seed=0)
    words = (BITS, "env.n_bits=15", "env.continuous=true", "--trust-pickle", "--seed", "0", "--json")
    code, out, err = rlher("evaluate", str(zoo), *words, "--episodes", "8")
    assert code == 0, err
    summary = json.loads(out)
    assert summary["model"] == str(zoo)
    assert summary["mean_reward"] == expected["mean_reward"]
    assert summary["success_rate"] == expected["success_rate"]
    assert "warning" in err
    assert "vecnormalize.pkl" in err


def test_a_trusted_model_can_be_watched(tmp_path: Path, rlher: Callable[..., Outcome]) -> None:
    trained(DQN, bit_flipping()).save(tmp_path / "dqn.zip")
    code, out, err = rlher("enjoy", "dqn.zip", BITS, "env.n_bits=15", "--trust-pickle", "--episodes", "2")
    assert code == 0, err
    assert out.count("steps") == 2
    assert (tmp_path / "enjoy.mp4").stat().st_size > 1000


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def make_malicious(path: Path, hacked: Path) -> Path:
    """Change a zip so that unpickling it creates a folder."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    data = json.loads(members["data"])
    data["policy_class"][":serialized:"] = base64.b64encode(cloudpickle.dumps(Malicious(hacked))).decode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"data": json.dumps(data)}).items():
            archive.writestr(name, content)
    return path


def test_nothing_is_unpickled_without_the_flag(zoo: Path, tmp_path: Path, rlher: Callable[..., Outcome]) -> None:
    hacked = tmp_path / "hacked"
    make_malicious(zoo, hacked)
    for command in ("evaluate", "enjoy"):
        code, _, err = rlher(command, str(zoo), BITS)
        assert code == 2
        assert "--trust-pickle" in err
    assert not hacked.exists()
    code, _, err = rlher("evaluate", str(zoo), BITS, "env.n_bits=15", "env.continuous=true", "--trust-pickle")
    assert code == 2, "it holds no policy"
    assert hacked.exists(), "unpickling this file runs code"
    assert "warning" in err


@pytest.mark.parametrize("words", [(), (BITS, "env.n_bits=6", "env.continuous=true"), (BITS, "env.n_bits=15")])
def test_the_environment_must_fit_the_model(zoo: Path, rlher: Callable[..., Outcome], words: tuple[str, ...]) -> None:
    (zoo.parent / "BitFlipping-v0/vecnormalize.pkl").unlink()
    code, _, err = rlher("evaluate", str(zoo), *words, "--trust-pickle")
    assert code == 2
    assert "Traceback" not in err


def test_files_without_a_usable_model_are_named(tmp_path: Path, rlher: Callable[..., Outcome]) -> None:
    PPO("MultiInputPolicy", bit_flipping()).save(tmp_path / "ppo.zip")
    (tmp_path / "text.zip").write_text("not a zip file")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("data", "[]")
    for name in ("ppo.zip", "text.zip", "other.zip", "none.zip"):
        code, _, err = rlher("evaluate", name, BITS, "--trust-pickle")
        assert code == 2
        assert name in err
        assert "Traceback" not in err


@pytest.mark.slow
def test_a_model_of_a_run_needs_no_trust_flag(rlher: Callable[..., Outcome]) -> None:
    assert rlher("train", "algo=dqn", BITS, "env.n_bits=4", "recipe=null", "total_timesteps=80", *TINY).code == 0
    run = "logs/dqn/BitFlipping-v0_1"
    for which in ("best", "last"):
        found = [
            json.loads(rlher("evaluate", *words, "--episodes", "2", "--json").out)
            for words in ((f"{run}/{which}_model.zip",), (run, "--checkpoint", which))
        ]
        assert found[0] == found[1]
        assert found[0]["run"] == run
        assert found[0]["checkpoint"] == which
    Path("copies").mkdir()
    shutil.copy(f"{run}/best_model.zip", "copies")
    assert rlher("export", run, "--output", "exported").code == 0
    best = json.loads(rlher("evaluate", f"{run}/best_model.zip", "--episodes", "2", "--json").out)
    for copied in ("copies/best_model.zip", "exported/dqn-BitFlipping-v0.zip"):
        words = (BITS, "env.n_bits=4", "--trust-pickle", "--episodes", "2", "--json")
        done = rlher("evaluate", copied, *words)
        assert done.code == 0, done.err
        assert json.loads(done.out)["mean_reward"] == best["mean_reward"]
    code, _, err = rlher("evaluate", run, "env.n_bits=8")
    assert code == 2
    assert "env.n_bits=8" in err
    code, _, err = rlher("evaluate", run, BITS)
    assert code == 2
    assert "env=" in err
