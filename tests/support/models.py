"""Pairs of models, ours and SB3's, with the same weights, the same buffer and the same random numbers."""

import sb3_contrib
import stable_baselines3
import torch as th

from rlher.algos import ALGORITHMS
from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.her import HerReplayBuffer

THEIRS = {
    "sac": stable_baselines3.SAC,
    "td3": stable_baselines3.TD3,
    "ddpg": stable_baselines3.DDPG,
    "dqn": stable_baselines3.DQN,
    "tqc": sb3_contrib.TQC,
    "qrdqn": sb3_contrib.QRDQN,
}


def build(cls, actions="continuous", buffer=None, policy="MultiInputPolicy", **kwargs):
    """A model on five bits that has played 64 random steps and learnt nothing yet."""
    env = BitFlippingEnv(n_bits=5, continuous=actions == "continuous")
    networks = {"net_arch": [32, 24]} | kwargs.pop("policy_kwargs", {})
    model = cls(
        policy,
        env,
        **{"learning_starts": 1000, "buffer_size": 1000, "tau": 0.05, "seed": 3, "device": "cpu"} | kwargs,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"seed": 1} | (buffer or {}),
        policy_kwargs=networks,
    )
    model.learn(64)
    return model


def ours(name, **kwargs):
    return build(ALGORITHMS[name].load(), ALGORITHMS[name].actions, **kwargs)


def theirs(name, **kwargs):
    return build(THEIRS[name], ALGORITHMS[name].actions, **kwargs)


def train(model, gradient_steps, rounds=1, batch_size=33):
    th.manual_seed(7)
    for _ in range(rounds):
        model.train(gradient_steps, batch_size)


def weights(model):
    """Everything that learns, by name."""
    found = dict(model.policy.state_dict())
    if getattr(model, "log_ent_coef", None) is not None:
        found["log_ent_coef"] = model.log_ent_coef.detach()
    return found
