"""Vectorised training environments, in this process or in worker processes, which can be built again.

They are built again to continue a run from a checkpoint, or because a worker process was lost.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecEnvWrapper, VecTransposeImage
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from rlher.config.environment import EnvConfig
from rlher.core.machine import available_cores
from rlher.core.workers import WorkerLost
from rlher.envs.make import make_env
from rlher.envs.restart_limit import RestartLimit
from rlher.envs.worker_vec_env import WorkerVecEnv


def make_vec_env(config: EnvConfig, n_envs: int = 1, seed: int = 0, vec_env: str = "dummy") -> VecEnv:
    """Return ``n_envs`` training environments as one ``VecEnv``, each in a Monitor and with its own seed.

    Images have their channels first, as policies take them.

    :param seed: seed of the group; each environment and the action space get their own seeds from it.
    :param vec_env: ``"dummy"``: all in this process; ``"subproc"``: in worker processes, at most one per core. One
        more, in this process, computes the rewards of virtual transitions while the workers step.
    :return: a vectorised environment; its ``close`` ends the processes. Its ``reset``, ``step`` and ``env_method``
        raise RunError if an environment fails, with the same message from either kind, and WorkerLost, which is a
        RunError, if a process dies or hangs.
    :raises UserError: as :func:`rlher.envs.make.make_env`, before any process is started.
    """
    build = partial(make_training_env, config)
    first = build()
    envs: VecEnv
    if vec_env == "subproc":
        build_seeds = np.random.SeedSequence(seed).generate_state(n_envs).tolist()
        envs = WorkerVecEnv(build, first, build_seeds, config, available_cores())
    else:
        envs = DummyVecEnv([lambda: first, *[build] * (n_envs - 1)])
    seed_envs(envs, seed)
    images = [space for space in first.observation_space.spaces.values() if is_image_space(space)]  # type: ignore
    # Stable-Baselines3 would do it outside of RestorableVecEnv, whose rebuilt environments return observations too.
    return envs if all(map(is_image_space_channels_first, images)) else VecTransposeImage(envs)


def seed_envs(envs: VecEnv, seed: int | None) -> Sequence[int]:
    """Seed the next reset of each environment and the action space, and return the environments' seeds.

    Stable-Baselines3 gives environment i the seed ``seed + i``, so runs with seeds 0 and 1 would share all but one of
    their environments.
    """
    *seeds, action_seed = np.random.SeedSequence(seed).generate_state(envs.num_envs + 1).tolist()
    envs.unwrapped._seeds = seeds
    envs.action_space.seed(action_seed)
    return seeds


def make_training_env(config: EnvConfig) -> Monitor:
    """Return one training environment in a Monitor, which notes success and crash of each episode."""
    env = make_env(config, training=True)
    return Monitor(env, info_keywords=env.get_wrapper_attr("step_keys"))


class RestorableVecEnv(VecEnvWrapper):
    """Rebuilds its environments from known seeds, and returns to a point within an episode by repeating actions.

    It repeats the recorded actions because few environments can save their state.

    Rebuilding, unlike a reset, also clears counters or a solver's warm start. A deterministic environment is restored
    bit for bit from seed and actions.

    If a worker process is lost, :meth:`replace_lost` replaces all of them.

    :param build: makes the vectorised environments from a seed.
    :param seed: seed of the first environments; the seeds of later ones derive from it and their number.
    :param max_restarts: how often processes may be lost without a finished episode in between.
    :param records_actions: record the actions, for a checkpoint.
    """

    def __init__(
        self, build: Callable[[int], VecEnv], seed: int, max_restarts: int, records_actions: bool = True
    ) -> None:
        self._build = build
        self._seed = seed
        self.restarts = RestartLimit(max_restarts)
        self._records_actions = records_actions
        super().__init__(build(seed))
        self.build_number = 0
        self.actions: list[np.ndarray] = []

    def rebuild(self, build_number: int | None = None, actions: Sequence[np.ndarray] = ()) -> VecEnvObs:
        """Build environments, reset them, take actions, and return the last observations (n_envs, …).

        If a process is lost meanwhile, all are built again. The seeds follow from the run's seed, so that a run with
        the same losses repeats itself.

        :param build_number: number of the environments; those of the run's beginning have 0. None: the next one.
        :param actions: (n_envs, …) of each step.
        :raises RunError: processes were lost too often.
        """
        while True:
            number = self.build_number + 1 if build_number is None else build_number
            try:
                self.venv.close()
                derived = np.random.SeedSequence([self._seed, number]).generate_state(1).item()
                self.venv = self._build(derived if number else self._seed)
                self.build_number, self.actions = number, list(actions)
                observations = self.venv.reset()
                for action in actions:  # not by `step`, which would count the restarts from 0 after an episode
                    observations = self.venv.step(action)[0]
                return observations
            except WorkerLost as lost:
                self.restarts.count_restart(lost)

    def replace_lost(self, lost: WorkerLost) -> VecEnvObs:
        """Build the next environments because a process was lost, and return their first observations.

        :raises RunError: processes were lost too often.
        """
        self.restarts.count_restart(lost)
        return self.rebuild()

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the environments with :func:`seed_envs`; the model calls this when it is built."""
        return seed_envs(self.venv, seed)

    def reset(self) -> VecEnvObs:
        """Reset all environments; build them again if a process is lost meanwhile."""
        try:
            return self.venv.reset()
        except WorkerLost as lost:
            return self.replace_lost(lost)

    def step_async(self, actions: np.ndarray) -> None:
        """Record and send the actions."""
        if self._records_actions:
            self.actions.append(np.array(actions))
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the results of a step."""
        results = self.venv.step_wait()
        if results[2].any():
            self.restarts.episode_finished()
        return results
