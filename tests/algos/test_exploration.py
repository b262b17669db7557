"""Noise over time, held random actions, schedules of the learning rate, and gSDE."""

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import SAC as PlainSAC
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

from rlher.algos import exploration
from rlher.algos.exploration import PinkActionNoise, RandomActions, make_noise, pink_noise
from rlher.algos.factory import build_model, is_fast
from rlher.algos.options import UpdateOptions
from rlher.algos.schedules import make_schedule
from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import BitFlippingConfig
from rlher.config.her import HerConfig
from rlher.config.training import EngineConfig, TrainConfig
from rlher.core.errors import UserError
from rlher.envs.vec import make_goal_envs
from tests.support.models import ours

BOX = spaces.Box(-1, 1, (2,), np.float32)


def built(name, n_envs=1, her=None, **keys):
    env = BitFlippingConfig(id="BitFlipping-v0", n_bits=4, continuous=True, max_episode_steps=4)
    algo = ALGORITHMS[name].config(
        name=name, **{"learning_starts": 5, "gradient_steps": 1, "batch_size": 8, "net_arch": [8]} | keys
    )
    config = TrainConfig(algo=algo, her=her or HerConfig(), env=env, device="cpu", engine=EngineConfig(overlap=False))
    return build_model(config, make_goal_envs(env, n_envs=n_envs))


def test_the_power_of_pink_noise_falls_with_frequency():
    length = 51
    np.random.seed(0)
    noise = pink_noise(length, (4000,))
    assert noise.shape == (length, 4000)
    assert noise.var() == pytest.approx(1, abs=0.05)
    assert noise.var(axis=1) == pytest.approx(np.ones(length), abs=0.15)
    power = (np.abs(np.fft.rfft(noise, axis=0)) ** 2).mean(axis=1)[1:24]
    slope = np.polyfit(np.log(np.arange(1, 24)), np.log(power), 1)[0]
    assert slope == pytest.approx(-1, abs=0.05)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("ddpg", "normal", NormalActionNoise),
        ("sac", "ou", OrnsteinUhlenbeckActionNoise),
        ("crossq", "pink", PinkActionNoise),
    ],
)
def test_each_environment_has_its_noise(name, kind, expected):
    model = built(name, n_envs=2, noise=kind, action_noise=0.2, learning_starts=0)
    model.learn(20)
    assert [type(each) for each in model.action_noise.noises] == [expected] * 2
    assert getattr(model.action_noise.noises[0], "_length", 4) == 4, "the longest episode"
    assert len(np.unique(model.action_noise()[:, 0])) == 2
    assert make_noise(kind, 0.0, (2,), 1, 50) is None


@pytest.mark.parametrize(("kind", "n_envs"), [("ou", 1), ("pink", 2)])
def test_the_state_of_noise_and_held_actions_can_be_restored(kind, n_envs):
    def model():
        return built("ddpg", n_envs, noise=kind, action_noise=0.2, random_action=0.5, random_action_hold=3)

    one, other = model(), model()
    one.random_actions.replace(np.zeros((n_envs, 4)), warm_up=True)
    for _ in range(3):
        one.action_noise()
    exploration.restore(other, exploration.state(one))
    for _ in range(3):
        found = []
        for each in (one, other):
            np.random.seed(4)
            actions = np.zeros((n_envs, 4))
            found.append((each.action_noise(), each.random_actions.replace(actions, warm_up=False), actions))
        for mine, others in zip(*found, strict=True):
            np.testing.assert_array_equal(mine, others)


def played(random_actions, steps, n_envs=1, warm_up=False):
    """Return (steps, n_envs) first entries of the actions; 9 where the agent's own was kept."""
    rows = []
    for _ in range(steps):
        actions = np.full((n_envs, 2), 9.0)
        random_actions.replace(actions, warm_up)
        rows.append(actions[:, 0])
    return np.array(rows)


@pytest.mark.parametrize(("hold", "n_envs"), [(1, 1), (5, 3)])
def test_random_actions_are_held_and_keep_their_share(hold, n_envs):
    np.random.seed(0)
    rows = played(RandomActions(BOX, 0.3, hold, n_envs), 6000, n_envs)
    assert (rows != 9).mean() == pytest.approx(0.3, abs=0.03)
    for env in range(n_envs):
        values, counts = np.unique(rows[:-hold, env][rows[:-hold, env] != 9], return_counts=True)
        assert len(values) > 100
        assert (counts == hold).mean() > 0.99


def test_no_action_is_held_beyond_the_end_of_its_episode():
    model = ours("ddpg", options=UpdateOptions(random_action=1.0, random_action_hold=100), learning_starts=0)
    actions = model.replay_buffer.storage.rows["_action"][:, 0]
    storage = model.replay_buffer.storage
    episodes = range(storage.episodes_used - storage.running[0])
    held = [actions[storage.first[each] : storage.last[each] + 1] for each in episodes]
    assert len(held) > 5
    assert all(len(np.unique(each)) == 1 for each in held)
    assert len({each[0] for each in held}) == len(held)


@pytest.mark.parametrize(
    ("kind", "expected"), [("constant", [2, 2, 2, 2]), ("linear", [2, 1.5, 1, 0]), ("cosine", [2, 1.7071068, 1, 0])]
)
def test_schedules_of_the_learning_rate(kind, expected):
    model = built("sac", learning_rate=2.0, learning_rate_schedule=kind)
    assert [model.lr_schedule(left) for left in (1, 0.75, 0.5, 0)] == pytest.approx(expected)
    assert make_schedule("constant", 2.0) == 2.0


@pytest.mark.parametrize(
    ("name", "keys"),
    [("sac", {"use_sde": True, "target_q_bounds": [-4, 0]}), ("crossq", {"kwargs": {"use_sde": True}})],
)
def test_gsde_is_trained_by_sb3s_train(name, keys):
    model = built(name, **keys)
    assert model.use_sde
    assert not is_fast(model)
    model.learn(20)
    assert model._n_updates > 0
    assert is_fast(built("sac"))
    assert isinstance(built("sac"), PlainSAC)


@pytest.mark.parametrize("keys", [{"random_action": 0.1}, {"target_critics": 1}])
def test_options_of_the_fast_update_are_refused_with_gsde(keys):
    with pytest.raises(UserError):
        built("sac", use_sde=True, **keys)
