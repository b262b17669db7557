"""Load the model of a run, and make policies of it: functions from an observation to an action."""

import copy
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path

import gymnasium as gym
import torch as th
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher.algos.build_model import build_inference_model
from rlher.config.environment import EnvConfig
from rlher.config.training import TrainConfig
from rlher.core.rng import preserve_rng_state, set_random_seed
from rlher.envs.make import make_env
from rlher.envs.relay import add_hand_goal
from rlher.evaluation.rollout import Policy
from rlher.run import model_file


def load_model(config: TrainConfig, file: Path | BytesIO, env: gym.Env, device: str = "cpu") -> OffPolicyAlgorithm:
    """Rebuild a run's model from its config and load the weights; nothing is unpickled.

    :param file: model file of the run.
    :param env: environment of the run, for its spaces.
    :raises UserError: the file is damaged.
    """
    venv = DummyVecEnv([lambda: env])
    # The model seeds its action space, which all environments of a class may share.
    venv.action_space = copy.deepcopy(venv.action_space)
    model = build_inference_model(config, venv, device)
    model_file.load_policy_weights(file, model)
    return model


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Make the episodes that are played in the block the same each time, wherever they are played.

    The generators of random numbers, from which an environment may draw while it is built, are seeded. One thread
    computes, because sums of several threads may differ in their last digit. Both are restored afterwards.
    """
    threads = th.get_num_threads()
    with preserve_rng_state():
        th.set_num_threads(1)
        set_random_seed(seed)
        try:
            yield
        finally:
            th.set_num_threads(threads)


def make_policy(model: OffPolicyAlgorithm, deterministic: bool = True) -> Policy:
    """Return a model's policy as a function from one observation to one action."""
    return lambda observation: model.predict(observation, deterministic=deterministic)[0]


def task_policy(config: EnvConfig, load_policy: Callable[[gym.Env], Policy], env: gym.Env) -> Policy:
    """Return the policy of a run for its environment without training aids.

    :param config: environment of the run.
    :param load_policy: loads the policy, given an environment of the run.
    :param env: the environment without training aids.
    """
    if not config.relay.enabled:
        return load_policy(env)
    with closing(make_env(config)) as run_env:
        policy = load_policy(run_env)
    return lambda observation: policy(add_hand_goal(observation, config.relay))
