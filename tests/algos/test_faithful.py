"""With default options the fast update gives SB3's weights, up to float32 rounding."""

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.td3 import MultiInputPolicy

from rlher.algos.optimizer_steps import OptimizerStep
from tests.support.models import THEIRS, ours, theirs, train, weights

CASES = {
    "sac": [{"ent_coef": 0.1}, {"target_update_interval": 3}, {"policy_kwargs": {"n_critics": 1}}],
    "td3": [{"policy_delay": 3, "target_policy_noise": 0.5}, {"policy_kwargs": {"n_critics": 3}}],
    "tqc": [{"ent_coef": 0.1, "policy_kwargs": {"n_quantiles": 7}}, {"policy_kwargs": {"n_critics": 1}}],
    "dqn": [{"max_grad_norm": 0.01}],
    "ddpg": [
        {"policy_kwargs": {"optimizer_kwargs": {"eps": 1e-3, "betas": (0.5, 0.9)}}},
        {"policy_kwargs": {"optimizer_kwargs": {"amsgrad": True}}},
        {"policy_kwargs": {"optimizer_class": th.optim.AdamW}},
        {"learning_rate": lambda remaining: 3e-4 + 1e-3 * remaining},
    ],
}
TARGETS = {"dqn": "q_net_target"}
WEIGHT_TOLERANCE = 2e-6  # largest difference seen: 4e-7, in weights around 0.1 that moved by about 0.01


def require_same(mine, other) -> None:
    updated, expected = weights(mine), weights(other)
    assert set(updated) == set(expected)
    for name, value in expected.items():
        assert th.allclose(updated[name], value, rtol=0, atol=WEIGHT_TOLERANCE), name


@pytest.mark.parametrize(
    ("name", "options", "n_steps"),
    [
        *((name, {}, 1) for name in THEIRS),
        ("tqc", {}, 3),
        *(pytest.param(name, case, 1, marks=pytest.mark.slow) for name in THEIRS for case in CASES[name]),
        *(pytest.param(name, {}, 3, marks=pytest.mark.slow) for name in THEIRS if name != "tqc"),
    ],
)
def test_fifty_updates_give_sb3s_weights(name, options, n_steps) -> None:
    gradient_steps, rounds, buffer = (1, 50, {}) if n_steps == 1 else (50, 1, {"n_steps": n_steps})
    mine, other = (make(name, buffer=buffer, **options) for make in (ours, theirs))
    before = {key: value.clone() for key, value in weights(mine).items()}
    for model in (mine, other):
        train(model, gradient_steps, rounds)
    require_same(mine, other)
    moved = [float((weights(mine)[key] - value).abs().max()) for key, value in before.items() if "target" not in key]
    assert min(moved) > 100 * WEIGHT_TOLERANCE
    assert mine._n_updates == other._n_updates == 50
    logged = {key: value for key, value in other.logger.name_to_value.items() if key.startswith("train/")}
    assert {key: mine.logger.name_to_value[key] for key in logged} == pytest.approx(logged, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("name", THEIRS)
def test_learning_and_predictions_equal_sb3s(name) -> None:
    mine, other = (make(name, learning_starts=20, train_freq=3) for make in (ours, theirs))
    require_same(mine, other)
    obs = mine.env.reset()
    for deterministic in (True, False):
        for observation in (obs, {key: value[0] for key, value in obs.items()}):
            actions = []
            for model in (mine, other):
                th.manual_seed(0)
                actions.append(model.predict(observation, deterministic=deterministic)[0])
            assert actions[0] == pytest.approx(actions[1], abs=1e-6)
            assert actions[0].shape == actions[1].shape


@pytest.mark.parametrize("name", THEIRS)
def test_target_q_bounds_equal_clamping_sb3s_target_network(name) -> None:
    bounds = (-0.05, 0.02)
    mine, other, free = ours(name, target_q_bounds=bounds), theirs(name), theirs(name)
    getattr(other, TARGETS.get(name, "critic_target")).register_forward_hook(clamp_to(bounds))
    for model in (mine, other, free):
        train(model, 20)
    require_same(mine, other)
    with pytest.raises(AssertionError):
        require_same(mine, free)


def clamp_to(bounds):
    """Return a forward hook that clamps every tensor that a network returns."""

    def clamp(module, inputs, output):
        if isinstance(output, tuple):
            return tuple(th.clamp(value, *bounds) for value in output)
        return th.clamp(output, *bounds)

    return clamp


class LearntFeatures(th.nn.Module):
    """A features extractor with parameters and running statistics."""

    def __init__(self, space, **norm) -> None:
        super().__init__()
        self.features_dim = 4
        self.layer = th.nn.Linear(sum(part.shape[0] for part in space.spaces.values()), 6, bias=False)
        self.norm = th.nn.BatchNorm1d(6, **norm)
        self.unused = th.nn.Linear(2, 2)
        self.unchanged = th.nn.Parameter(th.ones(6), requires_grad=False)
        self.transposed = th.nn.Parameter(th.linspace(-0.5, 1, 24).reshape(4, 6).t())

    def forward(self, obs):
        return (self.norm(self.layer(th.cat(list(obs.values()), dim=1))) * self.unchanged) @ self.transposed


class OtherCritics(MultiInputPolicy):
    """Critics with a features extractor of their own, a layer in common, and a layer with a parametrisation."""

    def make_critic(self, features_extractor=None):
        critic = super().make_critic(LearntFeatures(self.observation_space))
        first, second = critic.q_networks
        second[0] = first[0]
        second[2] = th.nn.utils.parametrizations.spectral_norm(second[2])
        return critic


class InTraining(th.nn.Module):
    """An activation function that depends on the training mode, as Dropout does."""

    def forward(self, x):
        return th.relu(x) * (1.5 if self.training else 1.0)


class WithPicture(gym.ObservationWrapper):
    """Adds an image to the observations."""

    def __init__(self, env) -> None:
        super().__init__(env)
        picture = spaces.Box(0, 255, (3, 36, 40), np.uint8)
        self.observation_space = spaces.Dict({**env.observation_space.spaces, "file": picture})

    def observation(self, observation):
        rows = np.resize((100 * observation["observation"]).astype(np.uint8), (36, 1))
        return {**observation, "file": np.tile(rows, (3, 1, 40))}


# SB3's SAC evaluates its actor for `obs` before `next_obs`, so running statistics differ.
LEARNT = {"features_extractor_class": LearntFeatures, "features_extractor_kwargs": {"track_running_stats": False}}
RUNNING = {"features_extractor_class": LearntFeatures}
SHARED = {"share_features_extractor": True}


@pytest.mark.parametrize(
    ("name", "policy", "wrapper"),
    [
        *((name, LEARNT, None) for name in THEIRS),
        *((name, LEARNT | SHARED, None) for name in ("sac", "td3")),
        *((name, RUNNING, None) for name in ("dqn", "td3")),
        ("td3", RUNNING | SHARED | {"optimizer_class": th.optim.AdamW}, None),
        *((name, {"activation_fn": th.nn.PReLU}, None) for name in ("sac", "td3")),
        *((name, {"activation_fn": InTraining}, None) for name in ("tqc", "td3", "dqn")),
        *((name, {}, WithPicture) for name in ("sac", "dqn")),
    ],
)
def test_every_policy_gets_sb3s_weights(name, policy, wrapper) -> None:
    mine, other = (make(name, policy_kwargs=policy, wrapper=wrapper) for make in (ours, theirs))
    before = {key: value.clone() for key, value in weights(mine).items()}
    for model in (mine, other):
        train(model, 20, batch_size=16)
    require_same(mine, other)
    after = weights(mine)
    assert all(th.equal(after[key], before[key]) == (".un" in key) for key in before if "target" not in key)
    obs = {key: value.numpy() for key, value in mine.replay_buffer.sample(8).observations.items()}
    actions, expected = (model.predict(obs, deterministic=True)[0] for model in (mine, other))
    assert actions == pytest.approx(expected, abs=1e-6)


def test_the_critics_may_differ_from_the_actor() -> None:
    mine, other = (make("td3", policy=OtherCritics) for make in (ours, theirs))
    other.policy.load_state_dict(mine.policy.state_dict())
    for model in (mine, other):
        train(model, 20, batch_size=16)
    require_same(mine, other)


def test_the_memory_layout_of_a_gradient_does_not_matter() -> None:
    transposed, updated = th.randn(3, 4).mT, []
    for gradient in (transposed, transposed.contiguous()):
        parameter = th.nn.Parameter(th.zeros(4, 3))
        step = OptimizerStep(lambda x, y=parameter: ((x * y).sum(), {}), th.optim.Adam([parameter]))
        step.take(gradient)
        updated.append(parameter)
    assert th.equal(*updated)
