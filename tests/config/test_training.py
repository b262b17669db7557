"""The id of an experiment, by which a sweep finds its runs; the range of seeds."""

from dataclasses import replace

import pytest

from rlher.config.algorithms import SACConfig
from rlher.config.commands import CollectConfig
from rlher.config.environment import EnvConfig
from rlher.config.key import dotted_keys
from rlher.config.training import EngineConfig, EvalConfig, TrainConfig, experiment_id
from rlher.config.tuning import OptimizeConfig
from rlher.evaluation.rollout import FINAL_SEED_OFFSET
from rlher.tuning.objective import RERUN_SEEDS

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


def test_seeds_that_count_up_are_seeds_of_numpy() -> None:
    keys = {
        **dotted_keys(OptimizeConfig),
        **{f"collect.{name}": key for name, key in dotted_keys(CollectConfig).items()},
    }
    highest = {name: key.metadata["high"] for name, key in keys.items() if key.metadata["high"] is not None}
    offset = max(FINAL_SEED_OFFSET, RERUN_SEEDS + highest["rerun_seeds"], highest["n_seeds"])
    for name in ("seed", "eval.seed", "collect.seed"):
        assert highest[name] + offset + max(highest["eval.final_episodes"], highest["collect.episodes"]) < 2**32
    assert highest["n_seeds"] <= RERUN_SEEDS
