"""Every algorithm of the registry: its defaults, its classes and its actions."""

from pkgutil import resolve_name

import pytest
from gymnasium import spaces
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from rlher.algos.factory import build_model, validate_actions
from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import EnvConfig
from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.envs.vec import make_goal_envs

SPACES = {"discrete": spaces.Discrete(3), "continuous": spaces.Box(-1.0, 1.0, (3,))}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_trains_with_its_defaults(name: str) -> None:
    algorithm = ALGORITHMS[name]
    small = {"learning_starts": 5, "gradient_steps": 1, "batch_size": 8, "net_arch": [8]}
    env = EnvConfig(id="BitFlipping-v0", kwargs={"n_bits": 3, "continuous": algorithm.actions == "continuous"})
    envs = make_goal_envs(env)
    algo = algorithm.config(name, **small)
    model = build_model(TrainConfig(algo=algo, env=env, device="cpu"), envs)
    model.learn(12)
    assert isinstance(model, resolve_name(algorithm.sb3))
    assert isinstance(model, OffPolicyAlgorithm)
    assert model._n_updates > 0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_accepts_its_kind_of_actions_only(name: str) -> None:
    for kind, space in SPACES.items():
        if kind == ALGORITHMS[name].actions:
            validate_actions(name, space)
        else:
            with pytest.raises(UserError, match=f"algo={name}"):
                validate_actions(name, space)
