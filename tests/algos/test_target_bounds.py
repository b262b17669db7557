"""Bounds of target values, with SB3's update step; tests/algos/test_faithful.py covers ours."""

import pytest
import torch as th

from rlher.algos import ALGORITHMS
from rlher.algos.factory import build_model
from rlher.algos.target_bounds import resolve_target_bounds
from rlher.config.environment import BitFlippingConfig
from rlher.config.her import HerConfig
from rlher.config.training import EngineConfig
from rlher.core.errors import UserError
from rlher.envs.vec import make_goal_envs

CASES = [
    ("auto", [-1.0, 0.0], 0.95, (-20.0, 0.0)),
    ("auto", [0.0, 1.0], 0.9, (0.0, 10.0)),
    ("auto", [None, 0.0], 0.95, (None, 0.0)),
    ("auto", [-1.0, -0.5], 0.5, (-2.0, 0.0)),  # an episode may end at once: 0 is always possible
    ("auto", None, 0.95, None),
    ("auto", [-1.0, 0.0], 1.0, None),
    (None, [-1.0, 0.0], 0.95, None),
    ([-5, 5], None, 0.95, (-5, 5)),
]


@pytest.mark.parametrize(("value", "rewards", "gamma", "expected"), CASES)
def test_resolve(value, rewards, gamma, expected) -> None:
    found = resolve_target_bounds(value, rewards, gamma)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("value", ["much", 3, [1], [2, 1], ["a", "b"], {"low": 1}])
def test_invalid_bounds_name_the_key(value) -> None:
    with pytest.raises(UserError, match="target_q_bounds"):
        resolve_target_bounds(value, [-1.0, 0.0], 0.9)


@pytest.mark.parametrize("name", [name for name, algorithm in ALGORITHMS.items() if algorithm.target_network])
def test_the_target_network_of_every_sb3_algorithm_is_clamped(name: str) -> None:
    continuous = ALGORITHMS[name].actions == "continuous"
    env = BitFlippingConfig(id="BitFlipping-v0", n_bits=3, continuous=continuous, reward_range=[-1.0, 0.0])
    algo = ALGORITHMS[name].config(
        name=name, net_arch=[8], learning_starts=5, gradient_steps=1, target_q_bounds=[-0.01, 0.01]
    )  # type: ignore[call-arg]
    envs = make_goal_envs(env)
    model = build_model(algo, HerConfig(), env, envs, 0, "cpu", EngineConfig(name="sb3"))
    model.learn(20)
    target = getattr(model, ALGORITHMS[name].target_network)
    for parameter in target.parameters():  # far outside the bounds, so that an unbounded output would show
        th.nn.init.constant_(parameter, 1.0)
    samples = model.replay_buffer.sample(8)
    outputs = target(samples.observations, samples.actions.float()) if continuous else target(samples.observations)
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        assert output.min() >= -0.01
        assert output.max() <= 0.01
        assert output.numel() >= 8
