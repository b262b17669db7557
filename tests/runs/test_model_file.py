"""Model files: whole, loadable by plain SB3, and harmless when they are not what they claim to be."""

import io
import pickle
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch as th
from gymnasium.spaces import Box
from stable_baselines3 import SAC

from rlher.algos.factory import build_inference_model, build_model
from rlher.config.algorithms import SACConfig
from rlher.config.environment import BitFlippingConfig
from rlher.config.training import HerConfig
from rlher.core.errors import UserError
from rlher.envs import make_env
from rlher.envs.normalize import GoalNormalize
from rlher.envs.vec import make_goal_envs
from rlher.runs import model_file

ENV = BitFlippingConfig(
    id="BitFlipping-v0", n_bits=4, continuous=True, success_key="is_success", ends_on_success=True, success_reward=0.0
)
ALGO = SACConfig(name="sac", net_arch=[8], learning_starts=10, gradient_steps=1, batch_size=8)


@pytest.fixture
def saved(tmp_path: Path):
    normalizer = GoalNormalize(make_goal_envs(ENV))
    model = build_model(ALGO, HerConfig(), ENV, normalizer, seed=0, device="cpu")
    model.learn(30)
    path = tmp_path / "model.zip"
    model_file.save(path, model, normalizer)
    return path, model, normalizer


def fresh():
    normalizer = GoalNormalize(make_goal_envs(ENV), training=False)
    return build_inference_model(ALGO, normalizer, "cpu"), normalizer


def test_a_policy_comes_back_whole(saved) -> None:
    path, model, normalizer = saved
    other, statistics = fresh()
    model_file.load_policy(path, other, statistics)
    observation = normalizer.get_original_obs()
    one = model.predict(normalizer.normalize_obs(observation), deterministic=True)[0]
    two = other.predict(statistics.normalize_obs(observation), deterministic=True)[0]
    np.testing.assert_array_equal(one, two)


def test_everything_that_learns_comes_back(saved) -> None:
    path, model, _ = saved
    normalizer = GoalNormalize(make_goal_envs(ENV))
    other = build_model(ALGO, HerConfig(), ENV, normalizer, seed=1, device="cpu")
    model_file.load_all(path, other, normalizer)
    assert other.log_ent_coef.item() == model.log_ent_coef.item()
    one, two = (each.critic.optimizer.state_dict()["state"][0]["exp_avg"] for each in (model, other))
    assert th.equal(one, two)


def test_plain_sb3_loads_it(saved) -> None:
    path, model, normalizer = saved
    plain = SAC.load(path, env=normalizer)
    for one, two in zip(model.policy.parameters(), plain.policy.parameters(), strict=True):
        assert th.equal(one, two)


def rewrite(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content |= {name.replace("__", "."): value for name, value in members.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in content.items():
            if value is not None:
                archive.writestr(name, value)


class Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def pickled_tensor_file(thing: object) -> bytes:
    buffer = io.BytesIO()
    th.save(thing, buffer)
    return buffer.getvalue()


def test_a_pickle_inside_does_nothing_but_an_error(saved, tmp_path: Path) -> None:
    path, _, _ = saved
    target = tmp_path / "hacked"
    rewrite(path, data=pickle.dumps(Bomb(target)), policy__pth=pickled_tensor_file({"a": Bomb(target)}))
    with pytest.raises(UserError, match="something other than weights"):
        model_file.load_policy(path, *fresh())
    assert not target.exists()


def test_a_pickled_normaliser_does_nothing_but_an_error(saved, tmp_path: Path) -> None:
    path, _, _ = saved
    target, arrays = tmp_path / "hacked", io.BytesIO()
    np.savez(arrays, **{"achieved_goal/mean": np.array([Bomb(target)], dtype=object)})
    rewrite(path, normalizer__npz=arrays.getvalue())
    with pytest.raises(UserError):
        model_file.load_policy(path, *fresh())
    assert not target.exists()


@pytest.mark.parametrize(
    "member", ["policy.pth", "normalizer.npz", "spaces.json", "inside policy.pth", "inside normalizer.npz"]
)
def test_a_file_that_would_fill_the_memory_is_told(saved, member: str) -> None:
    """Ten megabytes of nothing in ten kilobytes; nobody waits until they are gigabytes."""
    path, _, _ = saved
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    squeezed = io.BytesIO()
    with zipfile.ZipFile(squeezed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**7))
    content[member.removeprefix("inside ")] = squeezed.getvalue() if "inside" in member else bytes(10**7)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED if "inside" in member else zipfile.ZIP_DEFLATED) as archive:
        for name, value in content.items():
            archive.writestr(name, value)
    with pytest.raises(UserError, match="many times its own size"):
        model_file.load_policy(path, *fresh())


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_a_file_cut_short_is_told(saved, share: float) -> None:
    path, _, _ = saved
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(UserError, match="damaged"):
        model_file.load_policy(path, *fresh())


@pytest.mark.parametrize(
    ("change", "was", "is_"),
    [
        ({"n_bits": 6}, "observations achieved_goal Box(4,)", "achieved_goal Box(6,), desired_goal Box(6,)"),
        ({"continuous": False}, "actions Box(-1.0, 1.0, (4,), float32)", "Discrete(4)"),
    ],
)
def test_an_environment_that_has_changed_since_is_told(saved, change, was, is_) -> None:
    path, _, _ = saved
    env = make_env(replace(ENV, **change))
    with pytest.raises(UserError, match=f"was trained with {re.escape(was)}.*, but.* are .*{re.escape(is_)}.* now"):
        model_file.require_spaces(path, env)
    model_file.require_spaces(path, make_env(ENV))


def test_other_bounds_of_an_action_are_told_although_the_weights_fit(saved) -> None:
    path, _, _ = saved
    env = make_env(ENV)
    env.action_space = Box(-2.0, 2.0, (4,), np.float32)
    with pytest.raises(UserError, match=r"actions Box\(-1.0, 1.0.* are Box\(-2.0, 2.0"):
        model_file.require_spaces(path, env)


def test_other_mistakes_are_told(saved, tmp_path: Path) -> None:
    path, _, _ = saved
    with pytest.raises(UserError, match="no model file"):
        model_file.load_policy(tmp_path / "none.zip", *fresh())
    wider = build_inference_model(SACConfig(name="sac", net_arch=[16]), make_goal_envs(ENV), "cpu")
    with pytest.raises(UserError, match="does not fit"):
        model_file.load_policy(path, wider, None)
    (tmp_path / "pipe.zip").symlink_to("/dev/zero")
    with pytest.raises(UserError, match="no file"):
        model_file.load_policy(tmp_path / "pipe.zip", *fresh())
    rewrite(path, normalizer__npz=b"nonsense")
    with pytest.raises(UserError):
        model_file.load_policy(path, *fresh())
