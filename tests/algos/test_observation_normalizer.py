"""Normalisation by the policy: SB3's numbers, one normalizer for both goals, one for all networks of a model."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.torch_layers import CombinedExtractor

from rlher.algos import ALGORITHMS
from rlher.algos.observation_normalizer import MIN_STD, NormalizedExtractor, ObservationNormalizer
from rlher.config.training import NormalizeConfig
from tests.algos.test_faithful import require_same
from tests.support.models import from_config, ours, theirs, train

GOAL = spaces.Box(-np.inf, np.inf, (3,), np.float64)
SPACE = spaces.Dict(
    achieved_goal=GOAL,
    desired_goal=GOAL,
    observation=spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
    camera=spaces.Box(0, 255, (3, 36, 36), np.uint8),
    switch=spaces.MultiBinary(2),
)


def rows(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return observations; means of goals and vectors are near 1.3, their standard deviations near 0.1."""
    generator = np.random.default_rng(seed)
    SPACE.seed(seed)
    obs = {key: np.stack([part.sample() for _ in range(count)]) for key, part in SPACE.items()}
    for key in ("achieved_goal", "desired_goal", "observation"):
        obs[key] = generator.normal(1.3, 0.1, obs[key].shape)
    return obs


def test_statistics_are_those_of_sb3_and_both_goals_share_theirs() -> None:
    extractor = NormalizedExtractor(SPACE, clip=2.0)
    goals, observation = RunningMeanStd(shape=(3,)), RunningMeanStd(shape=(4,))
    for seed, count in enumerate((1, 4, 30)):
        obs = rows(count, seed)
        extractor.normalizer.update(obs)
        goals.update(obs["achieved_goal"])
        goals.update(obs["desired_goal"])
        observation.update(obs["observation"].reshape(count, 4))
    for name in ("mean", "var"):
        expected = np.concatenate([getattr(statistics, name) for statistics in (goals, goals, observation)])
        np.testing.assert_allclose(getattr(extractor.normalizer, name), expected, rtol=1e-3)
    assert extractor.normalizer.count == pytest.approx(35, abs=0.01)

    obs = {key: th.as_tensor(value).float() for key, value in rows(50, seed=9).items()}
    features = extractor(obs).detach()
    assert features.shape == (50, extractor.features_dim)
    sizes = [256 if key == "camera" else int(np.prod(space.shape)) for key, space in SPACE.items()]
    seen = dict(zip(SPACE, features.split(sizes, dim=1), strict=True))
    mean, std = goals.mean, np.sqrt(goals.var + MIN_STD**2)
    for key in ("achieved_goal", "desired_goal"):
        np.testing.assert_allclose(seen[key], ((obs[key] - mean) / std).clip(-2, 2), atol=1e-2)
    assert seen["observation"].abs().max() == 2
    assert th.equal(seen["switch"], obs["switch"])
    assert th.equal(seen["camera"], extractor.extractor.extractors["camera"](obs["camera"]))


def test_parts_of_goals_share_a_scale_and_unused_ones_stay_zero() -> None:
    goal = spaces.Box(-1, 1, (6,), np.float64)
    space = spaces.Dict(achieved_goal=goal, desired_goal=goal, observation=GOAL)
    normalizer = ObservationNormalizer(space, goal_parts=2)
    generator = np.random.default_rng(0)
    obs = {key: generator.normal(0.3, size=(11, *part.shape)) for key, part in space.items()}
    normalizer.update({key: value[:5] for key, value in obs.items()})
    normalizer.update({key: value[5:] for key, value in obs.items()})
    squares = (obs["achieved_goal"].reshape(22, 3) ** 2).mean(axis=0)
    np.testing.assert_allclose(normalizer.var[:12], np.tile(squares, 4), rtol=1e-3)
    assert (normalizer.mean[:12] == 0).all()
    assert (normalizer.mean[12:] != 0).all()
    goals = th.tensor([[0.1, -0.2, 0.3, 0, 0, 0, 0, 0, 0, 0.3, 0.2, 0.1, 1, 1, 1]])
    assert ((normalizer(goals) == 0) == (goals == 0)).all()


@pytest.mark.parametrize(
    ("name", "keys"), [*((name, {}) for name in ALGORITHMS), ("sac", {"layer_norm_critics": True})]
)
def test_training_updates_one_normalizer_of_all_networks(name: str, keys: dict) -> None:
    model = from_config(name, n_envs=2, **keys)
    model.learn(20)
    assert model.joined_keys
    assert model._n_updates > 0
    state = model.policy.state_dict()
    statistics = {key: tensor for key, tensor in state.items() if "normalizer" in key}
    assert len(statistics) in (6, 9, 12)
    assert len({tensor.data_ptr() for tensor in statistics.values()}) == 3
    assert model.normalizer.count == pytest.approx(20 + 2, abs=0.01)
    ends = model.replay_buffer.sample(64).next_observations["observation"]
    assert set(ends.unique().tolist()) <= {0.0, 1.0}, "the buffer holds raw observations"


class Doubled(CombinedExtractor):
    """A user's features extractor."""

    def forward(self, observations):
        self.seen = observations
        return 2 * super().forward(observations)


def test_a_users_features_extractor_sees_normalised_observations() -> None:
    model = from_config("sac", n_envs=2, policy_kwargs={"features_extractor_class": Doubled})
    model.learn(10)
    obs = model.env.reset()
    model.predict(obs)
    seen = model.actor.features_extractor.extractor.seen
    assert sum(tensor.numel() for tensor in seen.values()) == 24
    assert any((seen[key] - th.as_tensor(obs[key])).abs().max() > 0.1 for key in obs)


@pytest.mark.parametrize("name", ["sac", "dqn"])
def test_updates_equal_sb3s(name: str) -> None:
    networks = {"features_extractor_class": NormalizedExtractor}
    mine, other = ours(name, policy_kwargs=networks), theirs(name, policy_kwargs=networks)
    other.policy.load_state_dict(mine.policy.state_dict())
    for model in (mine, other):
        train(model, 10)
    require_same(mine, other)


def test_normalisation_is_configured() -> None:
    assert from_config("ddpg", normalize=NormalizeConfig(enabled=False)).normalizer is None
    normalizing = from_config("ddpg", normalize=NormalizeConfig(clip=3.0))
    assert float(normalizing.normalizer(th.full((1, 12), 1e6)).max()) == 3.0
