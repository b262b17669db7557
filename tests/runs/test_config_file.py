"""The config of a run, read back from its folder."""

from pathlib import Path

from rlher.config.algorithms import DQNConfig
from rlher.config.environment import BitFlippingConfig
from rlher.config.training import TrainConfig
from rlher.runs import config_file

CONFIG = TrainConfig(algo=DQNConfig(name="dqn"), env=BitFlippingConfig(id="BitFlipping-v0"), seed=3)


def test_a_config_is_read_as_it_was_written(tmp_path: Path) -> None:
    config_file.write_config(tmp_path, CONFIG)
    assert config_file.read_config(tmp_path) == CONFIG
