"""What our update step does beyond SB3's."""

import io

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.noise import NormalActionNoise

from rlher.algos import ALGORITHMS
from rlher.algos.batched_mlp import Stack
from rlher.algos.fast_update import Batch
from rlher.algos.layer_norm import with_layer_norm
from rlher.algos.options import Options
from tests.support.models import THEIRS, ours, train, weights

CRITICS = ["sac", "tqc", "td3", "ddpg"]


def batch_of(model, size=16, weighting=None) -> Batch:
    return model._batch(model.replay_buffer.sample(size))._replace(weights=weighting)


def loss_of(model, batch) -> float:
    th.manual_seed(0)
    if hasattr(model, "critic"):
        return float(model._critic_gradients(batch, model.draw(batch))[0])
    return float(model._gradients(batch)[0])


@pytest.mark.parametrize("name", THEIRS)
def test_importance_weights_scale_each_transitions_loss(name) -> None:
    model = ours(name)
    batch = batch_of(model)
    alone = [th.zeros(16, 1).index_fill_(0, th.tensor([index]), 1.0) for index in range(16)]
    parts = [loss_of(model, batch._replace(weights=weights)) for weights in alone]
    assert sum(parts) == pytest.approx(loss_of(model, batch), rel=1e-4)
    weights = th.rand(16, 1)
    expected = sum(part * float(weight) for part, weight in zip(parts, weights, strict=True))
    assert loss_of(model, batch._replace(weights=weights)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", THEIRS)
def test_the_buffer_learns_how_wrong_the_critics_were(name, monkeypatch) -> None:
    model = ours(name, buffer={"priority": "td_error"})
    told = []
    monkeypatch.setattr(model.replay_buffer, "update_priorities", lambda *given: told.append(given))
    train(model, 3, batch_size=16)
    assert [errors.shape for _, errors in told] == [(16,)] * 3
    assert all(len(indices) == 16 for indices, _ in told)
    assert all((errors >= 0).all() and errors.max() > 0 for _, errors in told)


def test_td_errors_are_those_of_the_critics() -> None:
    model = ours("ddpg", policy_kwargs={"n_critics": 2})
    batch = batch_of(model)
    _, errors, _ = model._critic_gradients(batch, model.draw(batch))
    with th.no_grad():
        pairs = th.cat([batch.next_obs, model.actor_target.mu(batch.next_obs)], 1)
        after = th.stack([network(pairs) for network in model.critic_target.q_networks]).amin(0)
        target = batch.rewards + batch.discounts * after
        now = [network(th.cat([batch.obs, batch.actions], 1)) for network in model.critic.q_networks]
    for found, value in zip(errors, now, strict=True):
        assert th.allclose(found, value - target, atol=1e-5)


@pytest.mark.parametrize("name", CRITICS)
def test_a_target_of_few_critics_is_above_the_least_of_all(name) -> None:
    few = ours(name, options=Options(target_critics=2), policy_kwargs={"n_critics": 5})
    batch = batch_of(few)
    draws = [few.draw(batch)[-1] for _ in range(200)]
    assert {len(set(subset.tolist())) for subset in draws} == {2}
    assert np.bincount(th.cat(draws).numpy(), minlength=5).min() > 40
    actions = batch.actions
    everyone = few.next_values(batch, actions, ())
    for subset in draws[:10]:
        assert th.allclose(few.next_values(batch, actions, (subset,)), everyone[subset], atol=1e-6)
    train(few, 3)
    with pytest.raises(ValueError, match="target_critics=3"):
        ours(name, options=Options(target_critics=3), policy_kwargs={"n_critics": 2})


@pytest.mark.parametrize("name", ["td3", "ddpg"])
def test_action_l2_keeps_actions_small(name) -> None:
    plain, held = (ours(name, options=Options(action_l2=weight)) for weight in (0.0, 100.0))
    for model in (plain, held):
        train(model, 60)
    obs = batch_of(plain, 64).obs
    large, small = ((model.actor.mu(obs) ** 2).mean().item() for model in (plain, held))
    assert small < 0.1 * large


@pytest.mark.parametrize("n_envs", [1, 2])
def test_random_actions_replace_the_share_asked_for(n_envs) -> None:
    model = ours("ddpg", options=Options(random_action=0.3), learning_starts=0)
    model._last_obs = {key: np.repeat(value, n_envs, axis=0) for key, value in model._last_obs.items()}
    greedy = model.predict(model._last_obs)[0]
    calm = NormalActionNoise(np.zeros(5), np.zeros(5))
    drawn = 0
    for _ in range(1000):
        actions, stored = model._sample_action(0, calm, n_envs)
        assert actions == pytest.approx(stored, abs=1e-6), "this space spans [-1, 1]"
        drawn += int((np.abs(actions - greedy).max(axis=1) > 1e-6).sum())
    assert 0.25 < drawn / (1000 * n_envs) < 0.35


@pytest.mark.parametrize("name", CRITICS)
def test_layer_norm_in_the_critics_alone(name) -> None:
    kind = ALGORITHMS[name].load()
    policy = with_layer_norm(kind.policy_aliases["MultiInputPolicy"])
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


def test_a_stack_is_its_networks() -> None:
    for inner in ([], [lambda: th.nn.LayerNorm(6)], [lambda: th.nn.Softmax(dim=-1)]):
        layers = [lambda: th.nn.Linear(7, 6), *inner, th.nn.Tanh]
        networks = [th.nn.Sequential(*(make() for make in layers), th.nn.Linear(6, 2)) for _ in range(3)]
        alone = [th.nn.Sequential(*network) for network in networks]
        x = th.randn(11, 7)
        expected = th.stack([network(x) for network in alone])
        stack = Stack(networks)
        assert th.allclose(stack(x), expected, atol=1e-6)
        loss = (stack(x) ** 3).sum()
        found = list(stack.gradients(th.autograd.grad(loss, stack.tensors)))
        by_hand = th.autograd.grad(sum((network(x) ** 3).sum() for network in networks), stack.parameters)
        for gradient, wanted in zip(found, by_hand, strict=True):
            assert th.allclose(gradient, wanted, atol=1e-4)
        with th.no_grad():
            stack.parameters[0].zero_()
        assert not stack.tensors[0][0].any(), "the networks and the stack are the same weights"


@pytest.mark.parametrize(
    "wrong", [{"random_action": 2}, {"action_l2": -1}, {"target_critics": 0}, {"precision": "float16"}]
)
def test_nonsense_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Options(**wrong)
