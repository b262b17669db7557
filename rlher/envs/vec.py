"""Several environments stepped together, in this process or in one process each."""

import multiprocessing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault
from rlher.envs.fault_guard import FAULT_KEY, Fault, Reporter, Unbuilt, sentence
from rlher.envs.make import make_env
from rlher.envs.subproc import Workers, leave_signals_to_main

STEP_SECONDS = 300.0
"""Seconds a step in a process of its own may take, unless the config says: no simulator that works is as slow."""


def make_goal_envs(cfg: EnvConfig, n_envs: int = 1, seed: int = 0, vec_env: str = "auto") -> VecEnv:
    """Build ``n_envs`` environments behind Stable-Baselines3's interface, each monitored, no two seeded alike.

    :param cfg: which environment.
    :param n_envs: how many, at least 1.
    :param seed: of the whole group; every environment and action space gets a stream of its own from it.
    :param vec_env: ``"dummy"``: all in this process; ``"subproc"``: one process each; ``"auto"``: the
        latter from two on.
    :return: a vectorised environment; closing it ends its processes.
    :raises UserError: as :func:`rlher.envs.make.make_env`, before any process is started.
    :raises EnvironmentFault: by its ``reset``, ``step`` and ``env_method``, with the same sentence from one
        process and from many; also when a process dies or hangs more than ``cfg.max_restarts`` times without a
        finished episode in between. Before that a fresh one takes its place, see :class:`~rlher.envs.subproc.Workers`.
    """
    first = _monitored(cfg)
    envs: VecEnv
    if in_processes(n_envs, vec_env):
        # A worker that cannot build its environment still has to answer what its spaces are.
        spaces = first.observation_space, first.action_space
        first.close()
        # The server of new processes imports the slow part once; each worker is then forked from it in no time.
        multiprocessing.set_forkserver_preload(["stable_baselines3.common.vec_env.subproc_vec_env"])
        timeout = STEP_SECONDS if cfg.step_timeout is None else cfg.step_timeout or None
        envs = Workers([partial(_worker_env, cfg, *spaces)] * n_envs, cfg.id, timeout, cfg.max_restarts)
    else:
        builders: list[Callable[[], gym.Env]] = [lambda: first, *[partial(_monitored, cfg)] * (n_envs - 1)]
        envs = DummyVecEnv(builders)
    guarded = GoalVecEnv(envs)
    guarded.seed(seed)
    return guarded


def in_processes(n_envs: int, vec_env: str) -> bool:
    """Tell whether environments run in processes of their own, which can be ended and replaced."""
    return n_envs > 1 if vec_env == "auto" else vec_env == "subproc"


class GoalVecEnv(VecEnvWrapper):
    """Raise what a worker process reported, and give every environment a seed of its own.

    :param venv: environments of :func:`make_goal_envs`.
    """

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the next reset, and the action spaces.

        Stable-Baselines3 would give environment i the seed ``seed + i``, so that runs with seeds 0 and 1
        share all but one of their environments.

        :return: the seeds, one per environment.
        """
        states = np.random.SeedSequence(seed).generate_state(self.num_envs + 1)
        seeds: list[int | None] = [int(state) for state in states[:-1]]
        self.venv._seeds = seeds
        self.action_space.seed(int(states[-1]))
        return seeds

    def reset(self) -> VecEnvObs:
        """Reset all.

        :raises EnvironmentFault: one of them failed.
        """
        observations = self.venv.reset()
        self._raise_reported(self.venv.reset_infos)
        self.reset_infos = self.venv.reset_infos
        return observations

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for all.

        :raises EnvironmentFault: one of them failed, in ``step`` or in the ``reset`` after an episode's end.
        """
        observations, rewards, dones, infos = self.venv.step_wait()
        self._raise_reported(infos)
        if dones.any():
            self._raise_reported(self.venv.reset_infos)
            self.reset_infos = self.venv.reset_infos
        return observations, rewards, dones, infos

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment.

        :raises EnvironmentFault: it raised in another process. (In this one, its own exception comes through.)
        """
        results = self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)
        for result in results:
            if isinstance(result, Fault):
                raise EnvironmentFault(str(result))
        return results

    def _raise_reported(self, infos: Sequence[dict[str, Any]]) -> None:
        for info in infos:
            if FAULT_KEY in info:
                raise EnvironmentFault(info[FAULT_KEY])


def _monitored(cfg: EnvConfig) -> Monitor:
    keywords = ("is_success", *(["is_crash"] if cfg.crash_key is not None else []))
    return Monitor(make_env(cfg, training=True), info_keywords=keywords)


def _worker_env(cfg: EnvConfig, observation_space: gym.Space, action_space: gym.Space) -> gym.Env:
    leave_signals_to_main()
    try:
        return Reporter(_monitored(cfg))
    except Exception as error:
        return Unbuilt(sentence(error), observation_space, action_space)
