"""Recipes: only what differs from the defaults."""

from dataclasses import replace

import yaml

from rlher.config.algorithms import DQNConfig
from rlher.config.her import HerConfig
from rlher.config.training import CheckpointConfig, EngineConfig, EvalConfig, TrainConfig
from rlher.tuning.outputs import recipe_text
from tests.support.small_search import bit_flipping


def dqn(n_bits: int) -> TrainConfig:
    return TrainConfig(algo=DQNConfig(name="dqn"), env=bit_flipping(n_bits), her=HerConfig(n_sampled_goal=7))


def written(config: TrainConfig) -> dict:
    return yaml.safe_load(recipe_text(config, ["a comment"]))


def test_defaults_are_left_out() -> None:
    config = dqn(n_bits=8)
    assert written(config) == {"env": {"kwargs": {"n_bits": 8}, "max_episode_steps": 8}, "her": {"n_sampled_goal": 7}}
    assert recipe_text(config, ["a comment"]).startswith("# a comment\n")


def test_a_comment_cannot_add_keys() -> None:
    """The name of an environment or of a folder is among the comments, and the file is signed."""
    assert "callbacks" not in yaml.safe_load(recipe_text(dqn(n_bits=8), ["env=x\ncallbacks: [evil:Callback]\n#"]))


def test_keys_of_the_machine_and_the_output_are_left_out() -> None:
    config = replace(dqn(n_bits=15), seed=3, recipe="mine.yaml", logger="wandb", record=True, device="cuda", n_envs=2)
    config = replace(config, eval=EvalConfig(keep_models=True, seed=1, episodes=7), checkpoint=CheckpointConfig(5, 1))
    config = replace(config, engine=EngineConfig(compile="off"), init_from="logs/x", total_timesteps=50)
    assert written(config) == {
        "env": {"max_episode_steps": 15},
        "her": {"n_sampled_goal": 7},
        "eval": {"episodes": 7},
        "n_envs": 2,
        "total_timesteps": 50,
    }
