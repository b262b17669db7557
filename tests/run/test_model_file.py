"""Model files: complete, loadable by plain SB3, and safe to read if damaged or malicious."""

import io
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch as th
from stable_baselines3 import SAC

from rlher.config.algorithms import SACConfig
from rlher.config.environment import EnvConfig
from rlher.config.training import EngineConfig, NormalizeConfig, RunConfig
from rlher.core.errors import DamagedFile, UserError
from rlher.core.reading import MAX_COMPRESSION
from rlher.envs.vec_env import make_vec_env
from rlher.run import model_file
from rlher.run.build_model import build_inference_model, build_model

ENV = EnvConfig(
    id="BitFlipping-v0",
    kwargs={"n_bits": 4, "continuous": True},
    success_key="is_success",
    ends_on_success=True,
    success_reward=0.0,
)
ALGO = SACConfig(name="sac", net_arch=[8], learning_starts=10, gradient_steps=1, batch_size=8)
CONFIG = RunConfig(algo=ALGO, env=ENV, device="cpu", engine=EngineConfig(overlap=False))


@pytest.fixture
def saved(tmp_path: Path):
    model = build_model(CONFIG, make_vec_env(ENV))
    model.learn(30)
    path = tmp_path / "model.zip"
    path.write_bytes(model_file.to_bytes(model))
    return path, model


def untrained():
    """Return a model to load weights into."""
    return build_inference_model(CONFIG, make_vec_env(ENV), "cpu")


def test_plain_sb3_loads_model_files(saved) -> None:
    path, model = saved
    plain = SAC.load(path, env=make_vec_env(ENV))
    for one, two in zip(model.policy.parameters(), plain.policy.parameters(), strict=True):
        assert th.equal(one, two)


def test_weights_that_are_not_finite_are_refused(saved) -> None:
    path, model = saved
    next(model.policy.parameters()).data.fill_(th.nan)
    model.save(path)
    with pytest.raises(UserError):
        model_file.load_policy_weights(path, untrained())


def rewrite(path: Path, compression: int, members: dict[str, bytes]) -> None:
    """Replace members of a zip file."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, value in (content | members).items():
            archive.writestr(name, value)


class WritesFile:
    """Writes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def test_pickles_are_not_loaded(saved, tmp_path: Path) -> None:
    path, _ = saved
    target = tmp_path / "hacked"
    weights = io.BytesIO()
    th.save({"a": WritesFile(target)}, weights)
    members = {"data": pickle.dumps(WritesFile(target)), "policy.pth": weights.getvalue()}
    rewrite(path, zipfile.ZIP_STORED, members)
    with pytest.raises(DamagedFile) as caught:
        model_file.load_policy_weights(path, untrained())
    assert caught.value.path == path
    assert not target.exists()


@pytest.mark.parametrize("member", ["policy.pth", "inside policy.pth"])
def test_a_zip_bomb_is_refused(saved, member: str) -> None:
    """Ten megabytes compressed to ten kilobytes stand for gigabytes."""
    path, _ = saved
    if member.startswith("inside "):
        compressed = io.BytesIO()
        with zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data.pkl", bytes(10**7))
        rewrite(path, zipfile.ZIP_STORED, {member.removeprefix("inside "): compressed.getvalue()})
    else:
        rewrite(path, zipfile.ZIP_DEFLATED, {member: bytes(10**7)})
    with pytest.raises(DamagedFile, match=str(MAX_COMPRESSION)):
        model_file.load_policy_weights(path, untrained())


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_a_truncated_file_is_refused(saved, share: float) -> None:
    path, _ = saved
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(DamagedFile):
        model_file.load_policy_weights(path, untrained())


def test_a_changed_environment_is_refused(saved) -> None:
    path, _ = saved
    envs = make_vec_env(replace(ENV, kwargs={"n_bits": 6, "continuous": True}))
    with pytest.raises(UserError, match="size mismatch"):
        model_file.load_policy_weights(path, build_inference_model(CONFIG, envs, "cpu"))


def test_wrong_files_are_refused(saved, tmp_path: Path) -> None:
    path, _ = saved
    with pytest.raises(UserError) as missing:
        model_file.load_policy_weights(tmp_path / "none.zip", untrained())
    assert str(tmp_path / "none.zip") in str(missing.value)
    wider = replace(CONFIG, algo=SACConfig(name="sac", net_arch=[16]))
    plain = replace(CONFIG, normalize=NormalizeConfig(enabled=False))
    for other in (wider, plain):
        with pytest.raises(UserError) as wrong:
            model_file.load_policy_weights(path, build_inference_model(other, make_vec_env(ENV), "cpu"))
        assert str(wrong.value).startswith(f"{path} ")
    (tmp_path / "pipe.zip").symlink_to("/dev/zero")
    with pytest.raises(DamagedFile):
        model_file.load_policy_weights(tmp_path / "pipe.zip", untrained())
