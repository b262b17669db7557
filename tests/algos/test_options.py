"""Options of the algorithms that SB3 does not have."""

import io

import pytest
import torch as th

from rlher.algos import ALGORITHMS
from rlher.algos.networks import with_layer_norm
from rlher.algos.target_q_bounds import resolve_target_q_bounds
from rlher.algos.update_batch import UpdateBatch
from tests.support.models import THEIRS, ours, train, weights

CRITICS = [name for name in THEIRS if ALGORITHMS[name].actions == "continuous"]


def batch_of(model, size=16) -> UpdateBatch:
    return model.make_batch(model.replay_buffer.sample(size))


def loss_of(model, batch) -> float:
    if hasattr(model, "critic"):
        return float(model.critic_loss(batch)[0].detach())
    return float(model.loss(batch)[0].detach())


@pytest.mark.parametrize(("name", "option"), [("sac", "action_l2"), ("dqn", "bc_weight")])
def test_an_option_that_the_algorithm_lacks_is_refused(name, option) -> None:
    with pytest.raises(TypeError, match=option):
        ours(name, **{option: 1.0})


@pytest.mark.parametrize("name", THEIRS)
def test_importance_weights_scale_the_loss_of_each_transition(name) -> None:
    model = ours(name)
    batch = batch_of(model)
    one_hot = [th.zeros(16, 1).index_fill_(0, th.tensor([index]), 1.0) for index in range(16)]
    parts = [loss_of(model, batch._replace(weights=weights)) for weights in one_hot]
    assert sum(parts) == pytest.approx(loss_of(model, batch), rel=1e-4)
    weights = th.rand(16, 1)
    expected = sum(part * float(weight) for part, weight in zip(parts, weights, strict=True))
    assert loss_of(model, batch._replace(weights=weights)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", THEIRS)
def test_the_buffer_receives_the_td_errors(name, monkeypatch) -> None:
    model = ours(name, buffer={"priority": "td_error"})
    updates = []
    monkeypatch.setattr(model.replay_buffer, "update_priorities", lambda *arguments: updates.append(arguments))
    train(model, 3, batch_size=16)
    assert [errors.shape for _, errors in updates] == [(16,)] * 3
    assert all(len(indices) == 16 for indices, _ in updates)
    assert all((errors >= 0).all() and errors.max() > 0 for _, errors in updates)


def test_td_errors_equal_those_computed_from_the_networks() -> None:
    model = ours("ddpg", policy_kwargs={"n_critics": 2})
    batch = batch_of(model)
    _, errors = model.critic_loss(batch)
    with th.no_grad():
        inputs = th.cat([batch.next_obs, model.actor_target.mu(batch.next_obs)], 1)
        next_values = th.stack([network(inputs) for network in model.critic_target.q_networks]).amin(0)
        target = batch.rewards + batch.discounts * next_values
        values = [network(th.cat([batch.obs, batch.actions], 1)) for network in model.critic.q_networks]
    for error, value in zip(errors, values, strict=True):
        assert th.allclose(error, value - target, atol=1e-5)


def test_action_l2_reduces_the_size_of_actions() -> None:
    unpenalised, penalised = (ours("td3", action_l2=weight) for weight in (0.0, 100.0))
    for model in (unpenalised, penalised):
        train(model, 60)
    obs = batch_of(unpenalised, 64).obs
    large, small = ((model.actor.mu(obs) ** 2).mean().item() for model in (unpenalised, penalised))
    assert small < 0.1 * large


@pytest.mark.parametrize(("kind", "expected"), [("constant", 0.2), ("linear", 0.05)])
def test_the_target_policy_noise_follows_its_schedule(kind, expected) -> None:
    model = ours("td3", target_policy_noise_schedule=kind)
    model._current_progress_remaining = 0.25
    noise = batch_of(model, 2000).next_noise
    assert float(noise.std()) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("name", ["td3", "tqc"])
def test_layer_norm_is_added_to_the_critics_only(name) -> None:
    model_class = ALGORITHMS[name].load()
    policy = with_layer_norm(model_class.policy_aliases["MultiInputPolicy"])
    model = ours(name, policy=policy)
    kinds = [type(layer).__name__ for layer in model.critic.q_networks[0]]
    assert kinds == ["Linear", "LayerNorm", "ReLU", "Linear", "LayerNorm", "ReLU", "Linear"]
    assert not any(isinstance(layer, th.nn.LayerNorm) for layer in model.actor.modules())
    scale = model.critic.qf0[1].weight.clone()
    train(model, 3)
    assert (model.critic.qf0[1].weight != scale).any(), "it learns"
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = THEIRS[name].load(file, env=model.env, device="cpu")
    assert all(th.equal(weights(loaded)[key], value) for key, value in weights(model).items())


BOUNDS = [
    ("auto", [-1.0, 0.0], 0.95, (-20.0, 0.0)),
    ("auto", [0.0, 1.0], 0.9, (0.0, 10.0)),
    ("auto", [None, 0.0], 0.95, (None, 0.0)),
    ("auto", [-1.0, -0.5], 0.5, (-2.0, 0.0)),  # an episode may end at once: 0 is always possible
    ("auto", None, 0.95, None),
    ("auto", [-1.0, 0.0], 1.0, None),
    (None, [-1.0, 0.0], 0.95, None),
    ([-5, 5], None, 0.95, (-5, 5)),
]


@pytest.mark.parametrize(("value", "rewards", "gamma", "expected"), BOUNDS)
def test_target_q_bounds_follow_from_the_rewards(value, rewards, gamma, expected) -> None:
    bounds = resolve_target_q_bounds(value, rewards, gamma)
    assert bounds == (None if expected is None else pytest.approx(expected))
