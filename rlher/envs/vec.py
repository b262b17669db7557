"""Several environments stepped together, in this process or in one process each."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from rlher.config import EnvConfig
from rlher.envs.guard import FAULT_KEY, Fault, Reporter, Unbuilt, sentence
from rlher.envs.make import make_env
from rlher.errors import EnvironmentFault


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
        process and from many; also when a process dies.
    """
    many = n_envs > 1 if vec_env == "auto" else vec_env == "subproc"
    first = _monitored(cfg)
    envs: VecEnv
    if many:
        # A worker that cannot build its environment still has to answer what its spaces are.
        spaces = first.observation_space, first.action_space
        first.close()
        # The server of new processes imports the slow part once; each worker is then forked from it in no time.
        multiprocessing.set_forkserver_preload(["stable_baselines3.common.vec_env.subproc_vec_env"])
        envs = SubprocVecEnv([partial(_worker_env, cfg, *spaces) for _ in range(n_envs)])
    else:
        builders: list[Callable[[], gym.Env]] = [lambda: first, *[partial(_monitored, cfg)] * (n_envs - 1)]
        envs = DummyVecEnv(builders)
    guarded = GoalVecEnv(envs, cfg.id)
    guarded.seed(seed)
    return guarded


class GoalVecEnv(VecEnvWrapper):
    """Raise what a worker process reported, and give every environment a seed of its own.

    :param venv: environments of :func:`make_goal_envs`.
    :param name: what to call them in a sentence.
    """

    def __init__(self, venv: VecEnv, name: str) -> None:
        super().__init__(venv)
        self._name = name

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
        with self._alive():
            observations = self.venv.reset()
        self._raise_reported(self.venv.reset_infos)
        self.reset_infos = self.venv.reset_infos
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions.

        :raises EnvironmentFault: a process died.
        """
        with self._alive():
            self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for all.

        :raises EnvironmentFault: one of them failed, in ``step`` or in the ``reset`` after an episode's end.
        """
        with self._alive():
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
        with self._alive():
            results = self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)
        for result in results:
            if isinstance(result, Fault):
                raise EnvironmentFault(str(result))
        return results

    def close(self) -> None:
        """End the environments and their processes, dead ones included."""
        try:
            self.venv.close()
        except (EOFError, OSError):
            for process in getattr(self.venv, "processes", []):
                process.terminate()
                process.join()

    def _raise_reported(self, infos: Sequence[dict[str, Any]]) -> None:
        for info in infos:
            if FAULT_KEY in info:
                raise EnvironmentFault(info[FAULT_KEY])

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError) as error:
            raise EnvironmentFault(f"{self._name}: {self._obituary()}") from error

    def _obituary(self) -> str:
        processes = getattr(self.venv, "processes", [])
        for index, process in enumerate(processes):
            process.join(timeout=0.2)
            if process.exitcode is not None:
                code = process.exitcode
                how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
                return f"the process of environment {index} died ({how})."
        return "the process of an environment stopped answering."


def _monitored(cfg: EnvConfig) -> Monitor:
    keywords = ("is_success", *(["is_crash"] if cfg.crash_key is not None else []))
    return Monitor(make_env(cfg), info_keywords=keywords)


def _worker_env(cfg: EnvConfig, observation_space: gym.Space, action_space: gym.Space) -> gym.Env:
    # Ctrl-C reaches the whole process group. The main process decides what it means, and may still want a last step.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return Reporter(_monitored(cfg))
    except Exception as error:
        return Unbuilt(sentence(error), observation_space, action_space)
