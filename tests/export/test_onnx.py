"""ONNX files select the actions that torch selects, from the environment's own observations."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch as th
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher.algos import ALGORITHMS
from rlher.config.environment import EnvConfig
from rlher.config.training import NormalizeConfig, RunConfig
from rlher.envs.make import make_env
from rlher.evaluation.models import make_policy
from rlher.export.onnx_policy import load_onnx, write_onnx
from rlher.run.build_model import build_inference_model
from tests.support.tiers import slow_except

BITS = EnvConfig(id="BitFlipping-v0", kwargs={"n_bits": 5})
CONTINUOUS = EnvConfig(id="BitFlipping-v0", kwargs={"n_bits": 5, "continuous": True})
REACH = EnvConfig(id="FetchReach-v4")
CASES = [(name, CONTINUOUS if algo.actions == "continuous" else BITS) for name, algo in ALGORITHMS.items()]


@pytest.mark.parametrize("normalized", slow_except([True], [True, False]), ids=["normalised", "plain"])
@pytest.mark.parametrize(
    ("algo", "env_config"), [*CASES, ("sac", REACH)], ids=lambda value: getattr(value, "id", value)
)
def test_actions_are_those_of_torch(algo: str, env_config: EnvConfig, normalized: bool, tmp_path: Path) -> None:
    generator, env = np.random.default_rng(0), make_env(env_config)
    venv = DummyVecEnv([lambda: env])
    normalize = NormalizeConfig(enabled=normalized, clip=4.0)
    config = RunConfig(algo=ALGORITHMS[algo].config(name=algo), env=env_config, normalize=normalize)
    model = build_inference_model(config, venv, "cpu")
    if (normalizer := model.normalizer) is not None:
        normalizer.mean.copy_(th.from_numpy(generator.normal(size=normalizer.mean.shape)))
        normalizer.var.copy_(th.from_numpy(generator.uniform(0, 2, size=normalizer.var.shape)))
        normalizer.var[:2] = 1e-6
    with th.no_grad():
        for weights in model.policy.parameters():
            weights.mul_(1.5)  # so that the actions of random observations differ
    write_onnx(tmp_path / "policy.onnx", model.policy, env.reset(seed=0)[0])
    torch_policy, policy = make_policy(model), load_onnx(tmp_path / "policy.onnx")

    spaces = env.observation_space.spaces
    rows = [env.reset(seed=0)[0]]
    for _ in range(50):
        rows.append({key: generator.normal(size=space.shape).astype(space.dtype) for key, space in spaces.items()})
    expected = np.stack([torch_policy(row) for row in rows])
    np.testing.assert_allclose([policy(row) for row in rows], expected, atol=1e-5, rtol=0)
    assert len(np.unique(expected)) > 2, "a constant policy would prove nothing"

    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    assert [entry.name for entry in session.get_inputs()] == list(env.observation_space.spaces)
    batch = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    (actions,) = session.run(["action"], batch)
    np.testing.assert_allclose(actions, expected, atol=1e-5, rtol=0)
    env.close()


def test_an_export_has_an_onnx_file_that_plays_its_environment(rlher, run: Path) -> None:
    done = rlher("export", str(run), "--format", "onnx", "--output", "exported", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["folder"] == "exported"
    file = Path("exported/dqn-BitFlipping-v0.onnx")
    onnx.checker.check_model(str(file))
    shapes = {entry.name: entry.type.tensor_type.shape.dim[1].dim_value for entry in onnx.load(file).graph.input}
    assert shapes == dict.fromkeys(("observation", "achieved_goal", "desired_goal"), 6)
    assert file.name in Path("exported/README.md").read_text()
    assert rlher("export", str(run), "--output", "exported").code == 0
    assert not file.exists(), "it would play an older model"
