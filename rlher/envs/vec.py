"""Vectorised goal environments, in this process or in worker processes."""

from collections.abc import Callable, Sequence
from functools import partial

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from rlher.config.environment import EnvConfig
from rlher.core.machine import available_cores
from rlher.envs.make import make_env
from rlher.envs.subproc_vec_env import RestartingSubprocVecEnv
from rlher.envs.success_info import EPISODE_DIAGNOSTICS


def make_goal_envs(
    config: EnvConfig,
    n_envs: int = 1,
    seed: int = 0,
    vec_env: str = "dummy",
    local_rewards: bool = False,
) -> VecEnv:
    """Return ``n_envs`` training environments as one ``VecEnv``, each in a Monitor and with its own seed.

    :param seed: seed of the group; each environment and the action space get their own seeds from it.
    :param vec_env: ``"dummy"``: all in this process; ``"subproc"``: in worker processes, at most one per core.
    :param local_rewards: keep an environment in this process for ``compute_reward``, so that virtual transitions can be
        sampled while the worker processes step.
    :return: a vectorised environment; its ``close`` ends the processes. Its ``reset``, ``step`` and ``env_method``
        raise EnvironmentFault if an environment fails, with the same message from either kind, or if a process was
        replaced too often, see :class:`~rlher.envs.subproc_vec_env.RestartingSubprocVecEnv`.
    :raises UserError: as :func:`rlher.envs.make.make_env`, before any process is started.
    """
    first = training_env(config)
    envs: VecEnv
    if vec_env == "subproc":
        if not local_rewards:
            first.close()
        envs = _InWorkers(
            partial(training_env, config),
            (first.observation_space, first.action_space),
            _seeds(seed, n_envs)[0],
            config.id,
            available_cores(),
            config.step_seconds,
            config.max_restarts,
            first if local_rewards else None,
        )
    else:
        builders: list[Callable[[], gym.Env]] = [lambda: first, *[partial(training_env, config)] * (n_envs - 1)]
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


class _InWorkers(_OwnSeeds, RestartingSubprocVecEnv):
    pass


def training_env(config: EnvConfig) -> Monitor:
    """Return one training environment in a Monitor, which notes success and crash of each episode."""
    crash = ("is_crash",) if config.crash_key is not None else ()
    diagnostics = EPISODE_DIAGNOSTICS if config.success_reward is not None else ()
    return Monitor(make_env(config, training=True), info_keywords=("is_success", *crash, *diagnostics))


def _seeds(seed: int | None, n_envs: int) -> tuple[list[int], int]:
    """Return the seeds of the environments, and that of their action space."""
    *envs, actions = np.random.SeedSequence(seed).generate_state(n_envs + 1).tolist()
    return envs, actions


class RepeatableVecEnv(VecEnvWrapper):
    """Rebuilds its environments with known seeds, records the actions since, and can repeat them.

    Few environments can save their state, so running episodes are restored by taking their actions again.

    Rebuilding, unlike a reset, also clears counters or a solver's warm start. A deterministic environment is restored
    bit for bit from seed and actions.

    :param build: makes the vectorised environments from a seed.
    :param seed: of the first environments; the seeds of later ones derive from it and their number.
    :param records: record the actions, for a checkpoint.
    """

    def __init__(self, build: Callable[[int], VecEnv], seed: int, records: bool = True) -> None:
        self._build, self._seed, self._records = build, seed, records
        super().__init__(build(seed))
        self.build_number = 0
        self._earlier_restarts = 0  # of environments before the last rebuild
        self.actions: list[np.ndarray] = []

    @property
    def total_restarts(self) -> int:
        """Worker processes replaced so far, in all builds together."""
        return self._earlier_restarts + getattr(self.venv, "restarts", 0)

    def rebuild(self, build_number: int) -> None:
        """Close the environments and build the ``build_number``-th ones, counted from 0; call ``reset`` next."""
        self._earlier_restarts = self.total_restarts
        self.venv.close()
        seeds = np.random.SeedSequence([self._seed, build_number])
        self.venv = self._build(int(seeds.generate_state(1)[0]) if build_number else self._seed)
        self.build_number, self.actions = build_number, []

    def repeat(self, actions: Sequence[np.ndarray]) -> VecEnvObs:
        """Reset and take the given actions; return the last observations (n_envs, …)."""
        observations = self.reset()
        for action in actions:
            observations = self.step(action)[0]
        return observations

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        return self.venv.reset()

    def step_async(self, actions: np.ndarray) -> None:
        """Record and send the actions."""
        if self._records:
            self.actions.append(np.array(actions))
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the results of a step."""
        return self.venv.step_wait()
