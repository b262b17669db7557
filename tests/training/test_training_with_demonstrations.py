"""Training with demonstrations, from cloning to errors about datasets that do not fit."""

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from same_run import differences

from rlher.algos.actor_critic import ActorCritic
from rlher.config.conf_files import conf_files
from rlher.config.environment import EnvConfig, RelayConfig
from rlher.envs.make import make_env
from rlher.her.datasets import read_dataset
from rlher.her.trajectories import Trajectory
from rlher.training.learning_from_demonstrations import _as_in_training
from rlher.training.preparation import TrainingSetup
from tests.conftest import TINY
from tests.support.bit_demonstrations import write_bit_demonstrations

BITS = ("env=BitFlipping-v0", "env.kwargs.n_bits=5", "env.kwargs.continuous=true", "eval.workers=0", "threads=1")
RUN = ("train", *TINY, *BITS, "total_timesteps=120", "demos=demos/bits-v0")


@pytest.fixture(autouse=True)
def _dataset(tmp_path: Path) -> None:
    write_bit_demonstrations(tmp_path / "demos/bits-v0")
    write_bit_demonstrations(tmp_path / "demos/other-v0", env="Other-v0")


@pytest.fixture
def setups(monkeypatch: pytest.MonkeyPatch) -> list[TrainingSetup]:
    """Collect the set-ups of the runs trained in this process."""
    setups: list[TrainingSetup] = []
    init = TrainingSetup.__init__

    def recording(self: TrainingSetup, *arguments, **others) -> None:
        init(self, *arguments, **others)
        setups.append(self)

    monkeypatch.setattr(TrainingSetup, "__init__", recording)
    return setups


LEARNT_FEATURES = "algo.policy_kwargs.features_extractor_class=tests.algos.test_faithful:LearntFeatures"


@pytest.mark.parametrize(
    "words",
    [
        ("algo=td3", "demos.bc_weight=2", "demos.pretrain_updates=5", LEARNT_FEATURES),
        ("algo=tqc", "her.n_steps=2", "her.priority=td_error", "demos.bc_weight=2"),
        pytest.param(("algo=ddpg", "n_envs=2", "vec_env=dummy", "her.priority=energy"), marks=pytest.mark.slow),
        pytest.param(("algo=sac", "demos.fraction=0.5", "normalize.enabled=false"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_every_algorithm_trains_with_demonstrations(rlher, setups, words) -> None:
    assert rlher(*RUN, *words).code == 0
    (setup,) = setups
    batch = setup.model.replay_buffer.sample(16)
    share = batch.demonstration_slice
    assert share.stop - share.start == (8 if "demos.fraction=0.5" in words else 2)
    assert (batch.actions[share].max(dim=1).values == 1).all()
    if setup.model.normalizer is not None:
        envs = setup.model.env
        steps = sum(map(len, read_dataset("demos/bits-v0", envs.observation_space, envs.action_space)))
        assert setup.model.normalizer.count == pytest.approx(120 + envs.num_envs + steps + 8, abs=1)


def test_discrete_actions(rlher, tmp_path) -> None:
    write_bit_demonstrations(tmp_path / "demos/discrete-v0", continuous=False)
    assert rlher(*RUN, "algo=dqn", "env.kwargs.continuous=false", "demos=demos/discrete-v0").code == 0


@pytest.mark.slow
def test_cloning_alone_and_going_on_from_it(rlher, tmp_path) -> None:
    """The result counts as an evaluation at step 0; resumed, the run needs no dataset, and clones no second time."""
    write_bit_demonstrations(tmp_path / "demos/many-v0", episodes=200)
    clone = (*RUN, "algo=sac", "demos=demos/many-v0", "total_timesteps=0", "demos.pretrain_updates=250")
    done = rlher(
        *clone, "algo.net_arch=[64,64]", "algo.learning_rate=1e-2", "algo.batch_size=128", "eval.final_episodes=30"
    )
    assert done.code == 0, done.err
    result = json.loads(Path("logs/sac/BitFlipping-v0_1/result.json").read_text())
    assert (result["timesteps"], result["status"]) == (0, "finished")
    assert result["success_rate"] > 0.6, "random actions solve a tenth of the goals"
    assert list(pd.read_csv("logs/sac/BitFlipping-v0_1/evaluations.csv").timesteps) == [0]
    evaluated = rlher("evaluate", "logs/sac/BitFlipping-v0_1", "--episodes", "30", "--json")
    assert json.loads(evaluated.out)["success_rate"] > 0.6
    shutil.rmtree("demos")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ActorCritic, "pretrain", None)
        more = rlher("train", "--resume", "logs/sac/BitFlipping-v0_1", "more_timesteps=60")
    assert more.code == 0, more.err
    result = json.loads(Path("logs/sac/BitFlipping-v0_1/result.json").read_text())
    assert result["timesteps"] == 60


def test_the_learning_rate_falls_while_cloning(rlher, setups) -> None:
    words = ("demos.pretrain_updates=200", "algo.learning_rate=1e-2", "algo.learning_rate_schedule=linear")
    assert rlher(*RUN, "algo=ddpg", "total_timesteps=0", *words).code == 0
    assert setups[0].model.actor.optimizer.param_groups[0]["lr"] == pytest.approx(5e-3), "of the second half"


@pytest.mark.slow
def test_an_interrupted_cloning_is_done_again(rlher, monkeypatch) -> None:
    words = (*RUN, "algo=ddpg", "demos.pretrain_updates=450", "checkpoint.freq=50")
    assert rlher(*words, "logs=reference").code == 0
    clone, calls = ActorCritic.pretrain, []

    def interrupting(self: ActorCritic, updates: int, size: int) -> float:
        calls.append(updates)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return clone(self, updates, size)

    monkeypatch.setattr(ActorCritic, "pretrain", interrupting)
    assert rlher(*words).code == 130
    assert calls == [100, 100, 100]
    assert rlher("train", "--resume").code == 0
    assert calls[3:] == [100, 100, 100, 100, 50]
    assert differences(Path("reference/ddpg/BitFlipping-v0_1"), Path("logs/ddpg/BitFlipping-v0_1")) == []


def test_a_checkpoint_follows_the_cloning(rlher, at_step) -> None:
    """A run that is killed in its first steps does not clone again."""
    words = (*RUN, "algo=ddpg", "demos.pretrain_updates=200", "checkpoint.freq=100")
    at_step(1, lambda: shutil.copytree("logs", "killed"))
    assert rlher(*words).code == 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ActorCritic, "pretrain", None)
        again = rlher("train", "--resume", "killed/ddpg/BitFlipping-v0_1")
    assert again.code == 0, again.err
    assert differences(Path("logs/ddpg/BitFlipping-v0_1"), Path("killed/ddpg/BitFlipping-v0_1")) == []


def test_rewards_and_goals_are_those_of_the_training_environment() -> None:
    assert "FetchPush-v4" in conf_files("env")
    relay = RelayConfig(enabled=True, hand=[0, 3], origin=[1.34, 0.75, 0.5])
    config = EnvConfig(
        id="FetchPush-v4", success_key="is_success", success_reward=0.0, reward_range=[-1.0, 0.0], relay=relay
    )
    plain = make_env(EnvConfig(id="FetchPush-v4", success_key="is_success"))
    wide = make_env(config)
    shown, recorded = [wide.reset(seed=3)[0]], [plain.reset(seed=3)[0]]
    for _ in range(5):
        action = plain.action_space.sample()
        shown.append(wide.step(action)[0])
        recorded.append(plain.step(action)[0])
    stacked = {key: np.stack([step[key] for step in recorded]) for key in recorded[0]}
    config.reward_offset = -2.0
    converted = _as_in_training(Trajectory(stacked, np.zeros((5, 4)), np.arange(5.0)), config)
    assert (converted.rewards == np.arange(5.0) - 2).all()
    for key, values in converted.observations.items():
        assert np.array_equal(values, np.stack([step[key] for step in shown]))


ERRORS = {
    "no dataset": ("demos=nowhere",),
    "another environment": ("demos=demos/other-v0",),
    "other shapes": ("env.kwargs.n_bits=4",),
    "cloning without demonstrations": ("demos=null", "demos.bc_weight=1"),
    "nothing to train": ("total_timesteps=0",),
    "pretraining of dqn": ("algo=dqn", "env.kwargs.continuous=false", "demos.pretrain_updates=5"),
    "a share of 1": ("demos.fraction=1",),
    "other action repeat": ("env.action_repeat=2",),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_does_not_fit_is_refused_before_the_run(rlher, case: str) -> None:
    done = rlher(*RUN, "algo=sac", *ERRORS[case])
    assert done.code == 2
    assert done.err.count("rlher:") == 1
    assert done.err.count("\n") == 1
    assert not Path("logs").exists()
