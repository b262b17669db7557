"""Vectorised goal environments, in this process or in one process each."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from rlher.config.environment import EnvConfig
from rlher.envs.episode_diagnostics import EPISODE_DIAGNOSTICS
from rlher.envs.make import make_env
from rlher.envs.processes import step_seconds
from rlher.envs.worker_vec import WorkerVecEnv


def make_goal_envs(
    cfg: EnvConfig,
    n_envs: int = 1,
    seed: int = 0,
    vec_env: str = "dummy",
    local_rewards: bool = False,
    check: Callable[[], Any] = lambda: None,
) -> VecEnv:
    """Return ``n_envs`` training environments as one ``VecEnv``, each in a Monitor and with its own seed.

    :param seed: seed of the group; each environment and the action space get their own seeds from it.
    :param vec_env: ``"dummy"``: all in this process; ``"subproc"``: one process each.
    :param local_rewards: keep an environment in this process for ``compute_reward``, so that virtual transitions can be
        sampled while the worker processes step.
    :param check: called before environments are built in this process, or while other processes build theirs; if it
        raises, they are ended.
    :return: a vectorised environment; its ``close`` ends the processes. Its ``reset``, ``step`` and ``env_method``
        raise EnvironmentFault, with the same message from either kind, also if a process is lost more than
        ``cfg.max_restarts`` times without a finished episode; until then a new process replaces it, see
        :class:`~rlher.envs.worker_vec.WorkerVecEnv`.
    :raises UserError: as :func:`rlher.envs.make.make_env`, before any process is started.
    """
    if vec_env != "subproc":
        check()
    first = training_env(cfg)
    envs: VecEnv
    if vec_env == "subproc":
        if not local_rewards:
            first.close()
        envs = _InWorkers(
            partial(training_env, cfg),
            (first.observation_space, first.action_space),
            _seeds(seed, n_envs)[0],
            cfg.id,
            step_seconds(cfg),
            cfg.max_restarts,
            first if local_rewards else None,
            check,
        )
    else:
        builders: list[Callable[[], gym.Env]] = [lambda: first, *[partial(training_env, cfg)] * (n_envs - 1)]
        envs = _InThisProcess(builders)
    envs.seed(seed)
    return envs


class _OwnSeeds(VecEnv):
    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the next reset and the action space.

        Stable-Baselines3 gives environment i the seed ``seed + i``, so runs with seeds 0 and 1 would share all but one
        of their environments.
        """
        seeds, action_seed = _seeds(seed, self.num_envs)
        self._seeds = [*seeds]
        self.action_space.seed(action_seed)
        return seeds


class _InThisProcess(_OwnSeeds, DummyVecEnv):
    pass


class _InWorkers(_OwnSeeds, WorkerVecEnv):
    pass


def training_env(cfg: EnvConfig) -> Monitor:
    """Return one training environment in a Monitor, which notes success and crash of each episode."""
    crash = ("is_crash",) if cfg.crash_key is not None else ()
    diagnostics = EPISODE_DIAGNOSTICS if cfg.success_reward is not None else ()
    return Monitor(make_env(cfg, training=True), info_keywords=("is_success", *crash, *diagnostics))


def _seeds(seed: int | None, n_envs: int) -> tuple[list[int], int]:
    """Return the seeds of the environments, and that of their action space."""
    *envs, actions = np.random.SeedSequence(seed).generate_state(n_envs + 1).tolist()
    return envs, actions
