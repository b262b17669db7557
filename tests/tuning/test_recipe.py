"""Recipes: only what differs from the defaults."""

import yaml

from rlher.config.algorithms import DQNConfig
from rlher.config.her import HerConfig
from rlher.config.training import RunConfig
from rlher.tuning.outputs import recipe_text
from tests.support.small_search import bit_flipping


def dqn(n_bits: int) -> RunConfig:
    return RunConfig(algo=DQNConfig(name="dqn"), env=bit_flipping(n_bits), her=HerConfig(n_sampled_goal=7))


def written(config: RunConfig) -> dict:
    return yaml.safe_load(recipe_text(config, ["a comment"]))


def test_defaults_are_left_out() -> None:
    config = dqn(n_bits=8)
    config.env.name = "BitFlipping-v0"  # as a probe sets it
    assert written(config) == {"env": {"kwargs": {"n_bits": 8}, "max_episode_steps": 8}, "her": {"n_sampled_goal": 7}}
    assert recipe_text(config, ["a comment"]).startswith("# a comment\n")


def test_a_comment_cannot_add_keys() -> None:
    """The name of an environment or of a folder is among the comments, and the file is signed."""
    assert "callbacks" not in yaml.safe_load(recipe_text(dqn(n_bits=8), ["env=x\ncallbacks: [evil:Callback]\n#"]))
