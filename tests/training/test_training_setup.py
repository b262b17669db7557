"""`prepare` restores the process settings that it changes."""

import torch as th

from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import EnvConfig
from rlher.config.training import TrainConfig
from rlher.training.training_setup import prepare


def flushes_subnormal_numbers() -> bool:
    return bool(th.tensor(1e-40) * th.tensor(1.0) == 0)


def test_subnormal_numbers_are_flushed_while_training_only():
    config = TrainConfig(
        algo=ALGORITHMS["ddpg"].config(name="ddpg", learning_starts=10, gradient_steps=1, buffer_size=100),
        env=EnvConfig(id="FetchReach-v4"),
        total_timesteps=100,
        threads=1,
    )
    with prepare(config):
        assert flushes_subnormal_numbers()
    assert not flushes_subnormal_numbers()
