"""The id of an experiment, by which a sweep finds its runs; the range of seeds."""

from dataclasses import replace

import pytest

from rlher.config.algorithms import SACConfig
from rlher.config.environment import EnvConfig
from rlher.config.training import EngineConfig, EvalConfig, TrainConfig, experiment_id

CONFIG = TrainConfig(algo=SACConfig(name="sac"), env=EnvConfig(id="FetchReach-v4"), seed=3)


@pytest.mark.parametrize(
    "changed",
    [
        replace(CONFIG, threads=2, device="cpu", vec_env="subproc"),
        replace(CONFIG, logs="elsewhere", recipe="mine.yaml", tensorboard=False, progress=False),
        replace(CONFIG, engine=EngineConfig(compile="on")),
    ],
)
def test_machine_and_output_do_not_change_the_experiment(changed: TrainConfig) -> None:
    assert experiment_id(changed) == experiment_id(CONFIG)


@pytest.mark.parametrize(
    "changed",
    [
        replace(CONFIG, seed=4),
        replace(CONFIG, algo=SACConfig(name="sac", gamma=0.9)),
        replace(CONFIG, env=EnvConfig(id="FetchReach-v4", kwargs={"a": 1})),
        replace(CONFIG, engine=EngineConfig(precision="bf16")),
        replace(CONFIG, eval=EvalConfig(episodes=7)),
    ],
)
def test_what_is_learnt_or_measured_changes_the_experiment(changed: TrainConfig) -> None:
    assert experiment_id(changed) != experiment_id(CONFIG)
