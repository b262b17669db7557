"""`prepare` restores the process settings that it changes, and loads the model to start from."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch as th

from rlher.algos.sac import SAC
from rlher.config.algorithms import DQNConfig, SACConfig
from rlher.config.environment import EnvConfig
from rlher.config.her import HerConfig
from rlher.config.training import EngineConfig, NormalizeConfig, RunConfig
from rlher.core.errors import UserError
from rlher.envs.make import make_env
from rlher.training.preparation import prepare


def flushes_subnormal_numbers() -> bool:
    return bool(th.tensor(1e-40) * th.tensor(1.0) == 0)


def test_subnormal_numbers_are_flushed_while_training_only():
    with prepare(learnt_features_config()):
        assert flushes_subnormal_numbers()
    assert not flushes_subnormal_numbers()


def test_a_plain_zip_of_sb3_is_a_starting_point(tmp_path: Path) -> None:
    env, plain = EnvConfig(id="BitFlipping-v0", kwargs={"n_bits": 4}), NormalizeConfig(enabled=False)
    policy = {"net_arch": [8]}
    trained = stable_baselines3.DQN("MultiInputPolicy", make_env(env), policy_kwargs=policy, buffer_size=10, seed=5)
    trained.save(path := tmp_path / "sb3.zip")
    config = RunConfig(algo=DQNConfig(name="dqn", **policy), env=env, normalize=plain, init_from=str(path))
    with prepare(config) as setup:
        weights = setup.model.policy.state_dict()
    for name, tensor in trained.policy.state_dict().items():
        th.testing.assert_close(weights[name], tensor)
    for wrong in (replace(config, normalize=NormalizeConfig()), replace(config, init_from=str(tmp_path / "none.zip"))):
        with pytest.raises(UserError), prepare(wrong):
            pass


def test_a_resumed_run_keeps_the_properties_of_its_environment() -> None:
    config = learnt_features_config()
    with prepare(config, is_resumed=True) as setup:
        assert setup.config.env == config.env


LEARNT_FEATURES = {"features_extractor_class": "tests.algos.test_faithful:LearntFeatures"}


def learnt_features_config() -> RunConfig:
    return RunConfig(
        algo=SACConfig("sac", policy_kwargs=LEARNT_FEATURES, net_arch=[16], batch_size=16),
        env=EnvConfig(id="BitFlipping-v0", kwargs={"n_bits": 4, "continuous": True}),
        engine=EngineConfig(compile="on", precision="bf16", overlap=True),
        normalize=NormalizeConfig(enabled=False),
        total_timesteps=100,
        threads=1,
    )


class OwnTargets(SAC):
    """Overrides a part of the fast update."""

    def update_targets(self) -> None:
        """Leave the target networks as they are."""


def test_learnt_features_have_the_options_of_the_fast_update() -> None:
    config = learnt_features_config()
    algo = replace(config.algo, model_class=f"{__name__}:OwnTargets", learning_starts=20)
    with prepare(replace(config, algo=algo, her=HerConfig(priority="td_error"))) as setup:
        model: Any = setup.model
        before = {key: value.clone() for key, value in model.policy.state_dict().items()}
        model.learn(40)
    for key, value in model.policy.state_dict().items():
        assert (key.startswith("critic_target") or ".un" in key) == th.equal(value, before[key]), key
    assert len(np.unique(model.replay_buffer.priority.tree.leaves)) > 10


def test_the_printed_size_is_about_that_of_the_full_buffer() -> None:
    config = RunConfig(
        algo=DQNConfig(name="dqn", buffer_size=500, learning_starts=600),
        env=EnvConfig("BitFlipping-v0", kwargs={"n_bits": 25}),
        total_timesteps=600,
        threads=1,
    )
    with prepare(config) as setup:
        (note,) = [note for note in setup.notes if "500 transitions" in note]
        setup.model.learn(600)
        storage: Any = setup.model.replay_buffer.storage
        size = storage.rows.nbytes + storage.next_achieved_goals.nbytes
        assert float(note.split()[-2]) == pytest.approx(size / 1e6, rel=0.2)
