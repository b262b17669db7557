"""The config of a run, read back from its folder."""

from pathlib import Path

import yaml

from rlher.config.algorithms import DQNConfig
from rlher.config.environment import BitFlippingConfig
from rlher.config.training import TrainConfig
from rlher.runs import config_file

CONFIG = TrainConfig(algo=DQNConfig(name="dqn"), env=BitFlippingConfig(id="BitFlipping-v0"), seed=3)


def test_a_config_is_read_as_it_was_written(tmp_path: Path) -> None:
    config_file.write_config(tmp_path, CONFIG)
    assert config_file.read_config(tmp_path) == CONFIG


def test_keys_that_an_older_version_did_not_write_have_the_values_of_that_version(tmp_path: Path) -> None:
    config_file.write_config(tmp_path, CONFIG)
    path = tmp_path / config_file.NAME
    values = yaml.safe_load(path.read_text())
    del values["engine"], values["eval"]
    path.write_text(yaml.safe_dump(values))
    config = config_file.read_config(tmp_path)
    assert (config.engine.name, config.engine.overlap) == ("sb3", False)
    assert config.eval == CONFIG.eval
    assert config.seed == 3
