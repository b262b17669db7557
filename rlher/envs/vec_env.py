"""Vectorised training environments, in this process or in worker processes."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecTransposeImage

from rlher.config.environment import EnvConfig
from rlher.core.machine import available_cores
from rlher.envs.make import make_env
from rlher.envs.worker_vec_env import WorkerVecEnv


def make_vec_env(config: EnvConfig, n_envs: int = 1, seed: int = 0, vec_env_type: str = "dummy") -> VecEnv:
    """Return ``n_envs`` training environments as one ``VecEnv``, each in a Monitor and with its own seed.

    Images have their channels first, as policies expect.

    :param seed: seed from which the seeds of the environments and of the action space derive.
    :param vec_env_type: ``"dummy"`` runs all environments in this process. ``"subproc"`` runs them in worker processes,
        at most one per core. A further environment in this process then computes the rewards of virtual transitions.
    :return: a vectorised environment; its ``close`` ends the processes. Its ``reset``, ``step`` and ``env_method``
        raise RunError if an environment fails; the message is that of both types. They raise WorkerLost, a subclass of
        RunError, if a process dies or hangs.
    :raises UserError: as :func:`rlher.envs.make.make_env`, before any process is started.
    """
    build = partial(make_training_env, config)
    first = build()
    envs: VecEnv
    if vec_env_type == "subproc":
        build_seeds = np.random.SeedSequence(seed).generate_state(n_envs).tolist()
        envs = WorkerVecEnv(build, first, build_seeds, config, available_cores())
    else:
        envs = DummyVecEnv([lambda: first, *[build] * (n_envs - 1)])
    seed_envs(envs, seed)
    images = [space for space in first.observation_space.spaces.values() if is_image_space(space)]  # type: ignore
    # Stable-Baselines3 would wrap RebuildableVecEnv, and miss the observations of rebuilt environments.
    return envs if all(map(is_image_space_channels_first, images)) else VecTransposeImage(envs)


def seed_envs(envs: VecEnv, seed: int | None) -> Sequence[int]:
    """Seed the next reset of each environment and the action space, and return the environments' seeds.

    Stable-Baselines3 gives environment i the seed ``seed + i``. So runs with seeds 0 and 1 would have all environments
    but one in common.
    """
    *seeds, action_seed = np.random.SeedSequence(seed).generate_state(envs.num_envs + 1).tolist()
    envs.unwrapped._seeds = seeds
    envs.action_space.seed(action_seed)
    return seeds


def make_training_env(config: EnvConfig) -> Monitor:
    """Return one training environment in a Monitor, which records success and crash of each episode."""
    env = make_env(config, training=True)
    return Monitor(env, info_keywords=env.get_wrapper_attr("step_keys"))
