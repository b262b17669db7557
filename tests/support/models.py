"""Pairs of models, with the fast update and SB3's, with equal weights, buffers and random numbers."""

from pkgutil import resolve_name

import torch as th

from rlher import HerReplayBuffer
from rlher.algos import ALGORITHMS
from rlher.config.environment import EnvConfig
from rlher.config.training import EngineConfig, NormalizeConfig, RunConfig
from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.envs.vec_env import make_vec_env
from rlher.run.build_model import build_model

THEIRS = {name: resolve_name(algorithm.sb3_class) for name, algorithm in ALGORITHMS.items()}
"""SB3's class of every algorithm."""


def build(
    cls, actions="continuous", buffer=None, policy="MultiInputPolicy", demonstrations=None, wrapper=None, **kwargs
):
    """Return an untrained model on five bits, with 64 random steps in its buffer."""
    env = BitFlippingEnv(n_bits=5, continuous=actions == "continuous")
    env = wrapper(env) if wrapper else env
    networks = {"net_arch": [32, 24]} | kwargs.pop("policy_kwargs", {})
    model = cls(
        policy,
        env,
        **{"learning_starts": 1000, "buffer_size": 1000, "tau": 0.05, "seed": 3, "device": "cpu"} | kwargs,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"seed": 1} | (buffer or {}),
        policy_kwargs=networks,
    )
    if demonstrations is not None:
        model.replay_buffer.set_demonstrations(demonstrations)
    model.learn(64)
    return model


def ours(name, **kwargs):
    return build(ALGORITHMS[name].load(), ALGORITHMS[name].actions, **kwargs)


def theirs(name, **kwargs):
    return build(THEIRS[name], ALGORITHMS[name].actions, **kwargs)


def from_config(name, n_envs=1, normalize=None, **keys):
    """Return an untrained model as `rlher train` builds it, on four bits."""
    env = EnvConfig(
        id="BitFlipping-v0",
        kwargs={"n_bits": 4, "continuous": ALGORITHMS[name].actions == "continuous"},
        max_episode_steps=4,
    )
    small = {"learning_starts": 5, "gradient_steps": 1, "batch_size": 8, "net_arch": [8]}
    algo = ALGORITHMS[name].config(name=name, **small | keys)
    engine, normalize = EngineConfig(overlap=False), normalize or NormalizeConfig()
    config = RunConfig(algo=algo, env=env, device="cpu", engine=engine, normalize=normalize)
    return build_model(config, make_vec_env(env, n_envs=n_envs))


def train(model, gradient_steps, rounds=1, batch_size=33):
    th.manual_seed(7)
    for number in range(rounds):
        model._current_progress_remaining = 1 - number / rounds  # of the learning rate
        model.train(gradient_steps, batch_size)


def weights(model):
    """Return all learnt tensors by name."""
    tensors = dict(model.policy.state_dict())
    if getattr(model, "log_ent_coef", None) is not None:
        tensors["log_ent_coef"] = model.log_ent_coef.detach()
    return tensors
