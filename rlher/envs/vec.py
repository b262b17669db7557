"""Vectorised goal environments, in this process or in one process each."""

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
from rlher.core.rng import seed_generators
from rlher.envs.episode_diagnostics import EPISODE_DIAGNOSTICS
from rlher.envs.fault_guard import FAULT_KEY, FailedEnv, FaultMessage, FaultReporter, fault_message
from rlher.envs.make import make_env
from rlher.envs.subproc import RestartingSubprocVecEnv
from rlher.envs.worker_process import ignore_run_signals, step_seconds


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
        :class:`~rlher.envs.subproc.RestartingSubprocVecEnv`.
    :raises UserError: as :func:`rlher.envs.make.make_env`, before any process is started.
    """
    if vec_env != "subproc":
        check()
    first = _monitored(cfg)
    envs: VecEnv
    if vec_env == "subproc":
        # A worker that fails to build its environment still has to return its spaces.
        spaces = first.observation_space, first.action_space
        if not local_rewards:
            first.close()
        workers = [partial(_worker_env, cfg, *spaces, env_seed) for env_seed in _seeds(seed, n_envs)[0]]
        reward_env = first if local_rewards else None
        envs = RestartingSubprocVecEnv(workers, cfg.id, step_seconds(cfg), cfg.max_restarts, reward_env, check)
    else:
        builders: list[Callable[[], gym.Env]] = [lambda: first, *[partial(_monitored, cfg)] * (n_envs - 1)]
        envs = DummyVecEnv(builders)
    goal_envs = GoalVecEnv(envs)
    goal_envs.seed(seed)
    return goal_envs


class GoalVecEnv(VecEnvWrapper):
    """Raise the faults that worker processes report, and give every environment its own seed."""

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the next reset and the action space.

        Stable-Baselines3 gives environment i the seed ``seed + i``, so runs with seeds 0 and 1 would share all but one
        of their environments.
        """
        seeds, action_seed = _seeds(seed, self.num_envs)
        self.venv._seeds = [*seeds]
        self.action_space.seed(action_seed)
        return seeds

    def reset(self) -> VecEnvObs:
        """Reset all environments.

        :raises EnvironmentFault: an environment failed.
        """
        observations = self.venv.reset()
        self._raise_reported(self.venv.reset_infos)
        self.reset_infos = self.venv.reset_infos
        return observations

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the results of a step.

        :raises EnvironmentFault: an environment failed, in ``step`` or in the ``reset`` after an episode's end.
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

        :raises EnvironmentFault: it raised in a worker process. (In this process its own exception is raised.)
        """
        results = self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)
        for result in results:
            if isinstance(result, FaultMessage):
                raise EnvironmentFault(str(result))
        return results

    def _raise_reported(self, infos: Sequence[dict[str, Any]]) -> None:
        for info in infos:
            if FAULT_KEY in info:
                raise EnvironmentFault(info[FAULT_KEY])


def _monitored(cfg: EnvConfig) -> Monitor:
    crash = ("is_crash",) if cfg.crash_key is not None else ()
    diagnostics = EPISODE_DIAGNOSTICS if cfg.success_reward is not None else ()
    return Monitor(make_env(cfg, training=True), info_keywords=("is_success", *crash, *diagnostics))


def _seeds(seed: int | None, n_envs: int) -> tuple[list[int], int]:
    """Return the seeds of the environments, and that of their action space."""
    *envs, actions = np.random.SeedSequence(seed).generate_state(n_envs + 1).tolist()
    return envs, actions


class _GlobalSeeds(gym.Wrapper):
    """Seed the global generators together with the environment, which may draw from them.

    All workers are forks of one process, so without it they would draw the same numbers, and not those of the run's
    seed.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            seed_generators(seed)
        return self.env.reset(seed=seed, options=options)


def _worker_env(cfg: EnvConfig, observation_space: gym.Space, action_space: gym.Space, seed: int) -> gym.Env:
    """Return the environment of a worker process.

    :param seed: of the global generators while it is built.
    """
    ignore_run_signals()
    seed_generators(seed)
    try:
        return FaultReporter(_GlobalSeeds(_monitored(cfg)))
    except BaseException as error:
        return FailedEnv(fault_message(error), observation_space, action_space)
