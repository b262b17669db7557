"""A vectorised environment with one worker process per environment, which replaces lost workers."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn

from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault
from rlher.core.rng import seed_generators
from rlher.core.workers import BUILD_SECONDS, Worker, WorkerLost, close_workers
from rlher.her.storage import LOST


class RestartLimit:
    """Counts how often the process of an environment was replaced since its last finished episode.

    :param process: its name for messages, such as "FetchReach-v4: the process of environment 0".
    :param limit: how often a new process may replace it without a finished episode in between.
    """

    def __init__(self, process: str, limit: int) -> None:
        self._process, self._limit, self._restarts = process, limit, 0

    def episode_finished(self) -> None:
        """Count from 0 again."""
        self._restarts = 0

    def count(self, lost: WorkerLost, where: str = "", consequence: str = "") -> None:
        """Print that the process was lost, and that a new one replaces it.

        :param where: such as " in the episode of seed 7".
        :param consequence: what happens first, such as "its episode ends, and ".
        :raises EnvironmentFault: the limit is reached.
        """
        loss = f"{self._process} {lost}{where}"
        if self._restarts == self._limit:
            raise EnvironmentFault(f"{loss}, after env.max_restarts={self._limit} restarts without a finished episode.")
        self._restarts += 1
        warn(f"{loss}; {consequence}a new process replaces it (see env.step_timeout).")


class EnvService:
    """The service of a worker: it holds one environment, and resets it after each episode.

    :param build: returns the environment.
    :param seed: of the global generators while it is built. All workers are forks of one process; without a seed they
        would draw the same numbers in every run.
    """

    def __init__(self, build: Callable[[], gym.Env], seed: int) -> None:
        seed_generators(seed)
        self.env = build()
        self._reset_info: dict[str, Any] = {}

    def reset(self, seed: int | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, and seed the global generators, from which it may draw."""
        if seed is not None:
            seed_generators(seed)
        observation, self._reset_info = self.env.reset(seed=seed, options=options or None)
        return observation, self._reset_info

    def step(self, action: Any) -> tuple[Any, Any, bool, dict[str, Any], dict[str, Any]]:
        """Take a step; return it as a ``VecEnv`` does, and the ``info`` of the last reset."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        done = terminated or truncated
        info["TimeLimit.truncated"] = truncated and not terminated
        if done:
            info["terminal_observation"] = observation
            observation, self._reset_info = self.env.reset()
        return observation, reward, done, info, self._reset_info

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with the environment and the arguments."""
        return function(self.env, *arguments)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def _call_method(env: gym.Env, name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    return env.get_wrapper_attr(name)(*arguments, **keywords)


class RestartingSubprocVecEnv(VecEnv):
    """Environments in worker processes; a process that died or hangs is replaced.

    The environment of the new process is reset. The step in which the old process was lost has no result. It is
    returned as the end of the episode, truncated at the last observation. Its ``info["lost_step"]`` is set, so that
    :class:`~rlher.her.HerReplayBuffer` does not store it.

    :param build: returns the environment. It is called in each process.
    :param spaces: of the observations and actions.
    :param seeds: of the global generators in each process while it builds its environment.
    :param name: of the environment, for messages.
    :param step_timeout: seconds a step or a reset may take; None: no limit.
    :param max_restarts: how often the process of one environment is replaced without a finished episode in between.
        The next loss raises EnvironmentFault.
    :param reward_env: environment in this process, whose ``compute_reward`` is called instead of the workers'.
    """

    def __init__(
        self,
        build: Callable[[], gym.Env],
        spaces: tuple[gym.Space, gym.Space],
        seeds: Sequence[int],
        name: str,
        step_timeout: float | None,
        max_restarts: int,
        reward_env: gym.Env | None = None,
    ) -> None:
        self.reward_env = reward_env
        self.restarts = 0
        """Number of workers that were replaced, of all environments."""
        self._step_timeout = step_timeout
        self._build_seeds, self._builders = seeds, [partial(EnvService, build, seed) for seed in seeds]
        processes = [f"{name}: the process of environment {index}" for index in range(len(seeds))]
        self._limits = [RestartLimit(process, max_restarts) for process in processes]
        self._first_of_new: dict[int, tuple[Any, dict]] = {}
        """First observation and info of each worker that was replaced since the last step."""
        self._last_obs: Sequence[Any] = []  # of each environment
        self.workers: list[Worker] = []
        try:
            self.workers += [Worker(builder, [__name__]) for builder in self._builders]
            for index in range(len(seeds)):
                with self._replacing_lost(index):
                    self._wait_until_built(index)
            super().__init__(len(seeds), *spaces)
        except BaseException:
            self.close()
            raise

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        self._first_of_new.clear()
        for index, arguments in enumerate(zip(self._seeds, self._options, strict=True)):
            with self._replacing_lost(index):
                self.workers[index].send("reset", *arguments)
        results = [self._result(index) or self._first_of_new.pop(index) for index in range(self.num_envs)]
        self._last_obs, self.reset_infos = zip(*results, strict=True)  # type: ignore[assignment]
        self._reset_seeds()
        self._reset_options()
        return self._stack(self._last_obs)

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions to the workers."""
        for index, action in enumerate(actions):
            if index not in self._first_of_new:  # the action belongs to the episode of the lost worker
                with self._replacing_lost(index):
                    self.workers[index].send("step", action)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the results of all workers."""
        results = [self._result(index) or self._lost_step(index) for index in range(self.num_envs)]
        self._last_obs, rewards, dones, infos, self.reset_infos = zip(*results, strict=True)  # type: ignore[assignment]
        for index in np.flatnonzero(dones):
            if LOST not in infos[index]:
                self._limits[index].episode_finished()
        return self._stack(self._last_obs), np.stack(rewards), np.stack(dones), infos  # type: ignore[return-value]

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment; if its worker is lost, of the one that replaces it."""
        return self._apply(indices, _call_method, method_name, method_args, method_kwargs)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of each environment."""
        return self._apply(indices, methodcaller("get_wrapper_attr", attr_name))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of each environment."""
        self._apply(indices, setattr, attr_name, value)

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Return whether each environment has a wrapper of this class."""
        return self._apply(indices, is_wrapped, wrapper_class)

    def close(self) -> None:
        """End all workers, including dead and hanging ones, and workers in the middle of a step."""
        close_workers(self.workers)
        if self.reward_env is not None:
            self.reward_env.close()

    @staticmethod
    def _stack(observations: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        return {key: np.stack([each[key] for each in observations]) for key in observations[0]}

    def _result(self, index: int) -> Any | None:
        """Return a worker's result of a step or reset; None if it was lost since the command was sent."""
        if index not in self._first_of_new:
            with self._replacing_lost(index):
                return self.workers[index].receive(self._step_timeout)
        return None

    def _apply(self, indices: VecEnvIndices, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        results: dict[int, Any] = {}
        for index in self._get_indices(indices):
            while index not in results:  # again if the worker is lost
                with self._replacing_lost(index):
                    self.workers[index].send("apply", function, *arguments)
                    results[index] = self.workers[index].receive(self._step_timeout)
        return [*results.values()]

    def _lost_step(self, index: int) -> tuple[Any, float, bool, dict[str, Any], dict]:
        """Return a substitute for the result of a step whose worker was lost."""
        first_obs, reset_info = self._first_of_new.pop(index)
        info = {LOST: True, "TimeLimit.truncated": True, "terminal_observation": self._last_obs[index]}
        return first_obs, 0.0, True, info, reset_info

    @contextlib.contextmanager
    def _replacing_lost(self, index: int) -> Iterator[None]:
        try:
            yield
        except WorkerLost as error:
            self._replace(index, error)

    def _replace(self, index: int, lost: WorkerLost) -> None:
        """Replace a lost worker by a new one and reset its environment."""
        while True:
            self._limits[index].count(lost, consequence="its episode ends, and ")
            self.restarts += 1
            try:
                self._first_of_new[index] = self._restart(index)
                return
            except WorkerLost as error:
                lost = error

    def _restart(self, index: int) -> tuple[Any, dict]:
        """Start a new worker in place of a lost one; return the first observation and info of its environment."""
        self.workers[index].kill()
        self.workers[index] = Worker(self._builders[index], [__name__])
        self._wait_until_built(index)
        # The seed follows from the run's seed, so that a run with the same losses repeats itself.
        seed = np.random.SeedSequence([self._build_seeds[index], self.restarts]).generate_state(1)[0]
        self.workers[index].send("reset", int(seed), {})
        return self.workers[index].receive(self._step_timeout)

    def _wait_until_built(self, index: int) -> None:
        self.workers[index].receive(BUILD_SECONDS)
