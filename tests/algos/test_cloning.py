"""Learning from demonstrations: the cloning loss with its Q filter, and cloning alone."""

import numpy as np
import pytest
import torch as th

from rlher import Trajectory
from rlher.algos import ALGORITHMS
from rlher.algos.actor_critic import ActorCritic
from tests.support.models import ours, train, weights

# The algorithms differ in the actor's loss, which the first test compares for all of them.
NAMES = [name for name, algorithm in ALGORITHMS.items() if issubclass(algorithm.load(), ActorCritic)]


def demonstrations(count: int = 6) -> list[Trajectory]:
    """Return episodes that change the bits from left to right, all with the same action."""
    rng, trajectories = np.random.default_rng(0), []
    for _ in range(count):
        goal, bits = rng.integers(0, 2, (2, 5))
        achieved = np.array([[*goal[:changed], *bits[changed:]] for changed in range(6)])
        observations = {"observation": achieved, "achieved_goal": achieved, "desired_goal": np.array([goal] * 6)}
        actions = np.tile([0.8, -0.4, -0.4, -0.4, 0.0], (5, 1))
        trajectories.append(Trajectory(observations, actions, -np.ones(5)))
    return trajectories


def cloning_model(name: str, **options):
    return ours(name, **options, demonstrations=demonstrations())


def actor_loss(model, batch) -> tuple[float, float]:
    """Return the actor's loss and its cloning loss."""
    _, losses = model.actor_and_bc_loss(batch)
    return float(losses["actor_loss"].detach()), float(losses["bc_loss"].detach())


def cloning_distance(model) -> float:
    """Return the mean squared distance of the actor's actions from those of the demonstrations."""
    samples = model.replay_buffer.sample_demonstrations(256)
    return float(model.bc_loss(model.join_obs(samples.observations), samples.actions, q_filter=False).detach())


@pytest.mark.parametrize("name", NAMES)
def test_the_cloning_loss_is_the_filtered_distance_of_demonstrated_actions(name) -> None:
    model = cloning_model(name, bc_weight=3.0)
    samples = model.replay_buffer.sample(64)
    batch = model.make_batch(samples)
    obs, actions = batch.demonstrations
    assert len(obs) == 8
    assert (actions.max(dim=1).values == 0.8).all()
    actor_actions = model.act(obs, deterministic=True).detach()
    with th.no_grad():
        values = [
            model.aggregate_q_values(th.stack([net(th.cat([obs, choice], 1)) for net in model.critic.q_networks]))[:, 0]
            for choice in (actions, actor_actions)
        ]
    kept = values[0] > values[1]
    distances = ((actor_actions - actions) ** 2).sum(dim=1)
    assert actor_loss(model, batch)[1] == pytest.approx(float((distances * kept).mean()), rel=1e-4)
    free = cloning_model(name, bc_weight=3.0, q_filter=False)
    free.policy.load_state_dict(model.policy.state_dict())
    assert actor_loss(free, batch)[1] == pytest.approx(float(distances.mean()), rel=1e-4)


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_cloning_brings_the_actor_to_the_demonstrations(name) -> None:
    model = cloning_model(name, bf16=True)
    critic = {key: value.clone() for key, value in model.critic.state_dict().items()}
    log_std = {key: value.clone() for key, value in weights(model).items() if "log_std" in key}
    before = cloning_distance(model)
    model.pretrain(360, 64)
    assert cloning_distance(model) < 0.1 * before
    assert all(th.equal(value, critic[key]) for key, value in model.critic.state_dict().items())
    assert all(th.equal(weights(model)[key], value) for key, value in log_std.items())
    if hasattr(model, "actor_target"):
        assert all(map(th.equal, model.actor.parameters(), model.actor_target.parameters()))


def test_narrow_layers_are_cloned_in_float32() -> None:
    narrow = {"demonstrations": demonstrations(), "policy_kwargs": {"net_arch": [24]}}
    models = [ours("sac", bf16=each, **narrow) for each in (False, True)]
    for model in models:
        model.pretrain(3, 64)
    assert all(map(th.equal, weights(models[0]).values(), weights(models[1]).values()))


def test_training_with_cloning_keeps_the_actor_near_the_demonstrations() -> None:
    distances = []
    for weight in (0.0, 100.0):
        buffer = {"priority": "td_error", "n_steps": 3}
        model = ours("td3", bc_weight=weight, q_filter=False, buffer=buffer, demonstrations=demonstrations())
        train(model, 150, batch_size=64)
        samples = model.replay_buffer.sample_demonstrations(200)
        actor_actions = model.act(model.join_obs(samples.observations), deterministic=True).detach()
        distances.append(float(((actor_actions - samples.actions) ** 2).sum(dim=1).mean()))
    assert model.logger.name_to_value["train/bc_loss"] > 0
    assert distances[1] < 0.5 * distances[0]
