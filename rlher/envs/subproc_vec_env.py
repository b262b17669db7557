"""A vectorised environment that shares its environments among worker processes, and replaces lost workers."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn

from rlher.config.environment import EnvConfig
from rlher.core.rng import set_random_seed
from rlher.core.workers import BUILD_SECONDS, RestartLimit, Worker, WorkerLost, close_workers, report_progress
from rlher.her.storage import LOST_STEP


class EnvService:
    """The service of a worker: it holds environments, and resets each after its episodes.

    The time limit of an answer begins again after each environment, see :meth:`rlher.core.workers.Worker.receive`.

    :param build: returns an environment.
    :param seeds: of the global generators while each environment is built. Workers are forks of one process, so without
        a seed all would draw the same numbers.
    """

    def __init__(self, build: Callable[[], gym.Env], seeds: Sequence[int]) -> None:
        self.envs: list[gym.Env] = []
        for seed in seeds:
            set_random_seed(seed)
            self.envs.append(build())
            report_progress()
        self._reset_infos: list[dict[str, Any]] = [{} for _ in seeds]

    def reset(self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> list[tuple[Any, dict[str, Any]]]:
        """Reset the environments, and seed the global generators, from which they may draw."""
        results = []
        for index, (seed, env_options) in enumerate(zip(seeds, options, strict=True)):
            if seed is not None:
                set_random_seed(seed)
            results.append(self.envs[index].reset(seed=seed, options=env_options or None))
            report_progress()
        self._reset_infos = [info for _, info in results]
        return results

    def step(self, actions: Sequence[Any]) -> list[tuple[Any, Any, bool, dict[str, Any], dict[str, Any]]]:
        """Take a step in each; return it as a ``VecEnv`` does, and the ``info`` of the last reset."""
        results = []
        for index, action in enumerate(actions):
            observation, reward, terminated, truncated, info = self.envs[index].step(action)
            done = terminated or truncated
            info["TimeLimit.truncated"] = truncated and not terminated
            if done:
                info["terminal_observation"] = observation
                observation, self._reset_infos[index] = self.envs[index].reset()
            report_progress()
            results.append((observation, reward, done, info, self._reset_infos[index]))
        return results

    def apply(self, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with an environment and the arguments."""
        return function(self.envs[index], *arguments)

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()


def _call_method(env: gym.Env, name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    return env.get_wrapper_attr(name)(*arguments, **keywords)


class RestartingSubprocVecEnv(VecEnv):
    """Environments in worker processes; if one of the processes dies or hangs, all of them are replaced.

    The environments of the new processes are reset. The step in which a process was lost has no result. It is returned
    as the end of each environment's episode, truncated at the last observation. Each ``info["lost_step"]`` is set, so
    that :class:`~rlher.her.HerReplayBuffer` does not store it.

    :param build: returns the environment. It is called in the processes.
    :param reward_env: environment in this process with the same spaces; the rewards of virtual transitions are its
        ``compute_reward``.
    :param seeds: of the global generators while each environment is built.
    :param config: of the environment; its ``step_timeout`` and ``max_restarts`` are used.
    :param processes: number of worker processes, among which the environments are shared.
    """

    def __init__(
        self, build: Callable[[], gym.Env], reward_env: gym.Env, seeds: Sequence[int], config: EnvConfig, processes: int
    ) -> None:
        self.reward_env = reward_env
        self.restarts = 0
        """How often the workers were replaced."""
        self._step_timeout, self._build_seeds = config.step_timeout_seconds, seeds
        parts = np.array_split(np.arange(len(seeds)), min(processes, len(seeds)))
        self._parts = [slice(part[0], part[-1] + 1) for part in parts]
        """Environments of each worker."""
        self._builders = [partial(EnvService, build, seeds[part]) for part in self._parts]
        self._limit = RestartLimit(f"{config.id}: the process of an environment", config.max_restarts)
        self._first_of_new: list[tuple[Any, dict]] = []
        """First observation and info of each environment, if the workers were replaced since the last step."""
        self._last_obs: Sequence[Any] = []  # of each environment
        self.workers: list[Worker] = []
        try:
            with self._replacing_lost():
                self._start_workers()
            super().__init__(len(seeds), reward_env.observation_space, reward_env.action_space)
        except BaseException:
            self.close()
            raise

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        with self._replacing_lost():
            self._send("reset", self._seeds, self._options)
            self._first_of_new = self._receive()
        self._last_obs, self.reset_infos = zip(*self._first_of_new, strict=True)  # type: ignore[assignment]
        self._first_of_new = []
        self._reset_seeds()
        self._reset_options()
        return self._stack(self._last_obs)

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions to the workers."""
        if not self._first_of_new:  # else the actions belong to the episodes before the loss
            with self._replacing_lost():
                self._send("step", actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the results of all workers."""
        results: list[Any] = []
        if not self._first_of_new:
            with self._replacing_lost():
                results = self._receive()
        if self._first_of_new:
            lost = {LOST_STEP: True, "TimeLimit.truncated": True}
            results = [
                (first_obs, 0.0, True, lost | {"terminal_observation": last_obs}, reset_info)
                for (first_obs, reset_info), last_obs in zip(self._first_of_new, self._last_obs, strict=True)
            ]
            self._first_of_new = []
        elif any(done for _, _, done, *_ in results):
            self._limit.episode_finished()
        self._last_obs, rewards, dones, infos, self.reset_infos = zip(*results, strict=True)  # type: ignore[assignment]
        return self._stack(self._last_obs), np.stack(rewards), np.stack(dones), infos  # type: ignore[return-value]

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment; if a worker is lost, of the environment that replaces it.

        ``compute_reward`` is called in this process, also while the workers step.
        """
        if method_name == "compute_reward":
            compute_reward = self.reward_env.get_wrapper_attr(method_name)
            return [compute_reward(*method_args, **method_kwargs) for _ in self._get_indices(indices)]
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
        self.reward_env.close()

    @staticmethod
    def _stack(observations: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        return {key: np.stack([observation[key] for observation in observations]) for key in observations[0]}

    def _send(self, method: str, *values: Any) -> None:
        """Ask all workers for a call of a method of their service.

        :param values: arguments; of each (n_envs, …) the worker gets the part of its environments.
        """
        for worker, part in zip(self.workers, self._parts, strict=True):
            worker.send(method, *(value[part] for value in values))

    def _receive(self) -> list[Any]:
        """Return the result of each environment."""
        return [result for worker in self.workers for result in worker.receive(self._step_timeout)]

    def _apply(self, indices: VecEnvIndices, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        results: dict[int, Any] = {}
        for index in self._get_indices(indices):
            number = next(number for number, part in enumerate(self._parts) if index < part.stop)
            while index not in results:  # again if a worker is lost
                with self._replacing_lost():
                    worker = self.workers[number]
                    worker.send("apply", index - self._parts[number].start, function, *arguments)
                    results[index] = worker.receive(self._step_timeout)
        return [*results.values()]

    @contextlib.contextmanager
    def _replacing_lost(self) -> Iterator[None]:
        """Replace all workers if one is lost in the block, and reset the environments."""
        try:
            yield
        except WorkerLost as lost:
            self._limit.count(lost)
            self.restarts += 1
            with self._replacing_lost():  # a new worker may be lost, too
                self._start_workers()
                # The seeds follow from the run's seed, so that a run with the same losses repeats itself.
                sequences = [np.random.SeedSequence([seed, self.restarts]) for seed in self._build_seeds]
                seeds = [int(sequence.generate_state(1)[0]) for sequence in sequences]
                self._send("reset", seeds, [{}] * len(seeds))
                self._first_of_new = self._receive()

    def _start_workers(self) -> None:
        """Start all workers, in place of earlier ones."""
        close_workers(self.workers)
        self.workers = [Worker(builder) for builder in self._builders]
        for worker in self.workers:
            worker.receive(BUILD_SECONDS)
