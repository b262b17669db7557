"""A vectorised environment that distributes its environments over worker processes."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn

from rlher.config.environment import EnvConfig
from rlher.core.rng import set_random_seed
from rlher.core.workers import BUILD_TIMEOUT, Worker, close_workers, report_progress


class EnvService:
    """The service of a worker: it holds environments, and resets each of them after an episode.

    The worker's time limit starts again after each environment, see :meth:`rlher.core.workers.Worker.receive`.

    :param build: function that returns an environment.
    :param seeds: for each environment, seed of the global generators while it is built. Workers are forks of one
        process, so without seeds all of them would draw the same numbers.
    """

    def __init__(self, build: Callable[[], gym.Env], seeds: Sequence[int]) -> None:
        self.envs: list[gym.Env] = []
        for seed in seeds:
            set_random_seed(seed)
            self.envs.append(build())
            report_progress()

    def reset(self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> list[Any]:
        """Reset the environments. Seed the global generators before, because environments may draw from them."""
        observations = []
        for env, seed, env_options in zip(self.envs, seeds, options, strict=True):
            if seed is not None:
                set_random_seed(seed)
            observations.append(env.reset(seed=seed, options=env_options or None)[0])
            report_progress()
        return observations

    def step(self, actions: Sequence[Any]) -> list[tuple[Any, Any, bool, dict[str, Any]]]:
        """Take a step in each environment, and return the results as a ``VecEnv`` does."""
        results = []
        for env, action in zip(self.envs, actions, strict=True):
            observation, reward, terminated, truncated, info = env.step(action)
            done = terminated or truncated
            info["TimeLimit.truncated"] = truncated and not terminated
            if done:
                info["terminal_observation"] = observation
                observation, _ = env.reset()
            report_progress()
            results.append((observation, reward, done, info))
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


class WorkerVecEnv(VecEnv):
    """Environments in worker processes. It raises WorkerLost if a process dies or hangs.

    :class:`rlher.envs.rebuildable_vec_env.RebuildableVecEnv` then replaces all of them.

    :param build: function that returns an environment; the worker processes call it.
    :param reward_env: environment in this process with the same spaces. Its ``compute_reward`` computes the rewards of
        virtual transitions.
    :param seeds: for each environment, seed of the global generators while it is built.
    :param config: config of the environment; its ``step_timeout`` is used.
    :param processes: number of worker processes over which the environments are distributed.
    """

    def __init__(
        self, build: Callable[[], gym.Env], reward_env: gym.Env, seeds: Sequence[int], config: EnvConfig, processes: int
    ) -> None:
        self.reward_env = reward_env
        self._step_timeout = config.step_timeout
        parts = np.array_split(np.arange(len(seeds)), min(processes, len(seeds)))
        self._slices = [slice(part[0], part[-1] + 1) for part in parts]
        """Environments of each worker."""
        self.workers: list[Worker] = []
        try:
            for part in self._slices:
                service = partial(EnvService, build, seeds[part])
                self.workers.append(Worker(service, f"{config.id}: the process of an environment"))
            for worker in self.workers:
                worker.receive(BUILD_TIMEOUT)
            super().__init__(len(seeds), reward_env.observation_space, reward_env.action_space)
        except BaseException:
            self.close()
            raise

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        self._send("reset", self._seeds, self._options)
        observations = self._receive()
        self._reset_seeds()
        self._reset_options()
        return self._stack(observations)

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions to the workers."""
        self._send("step", actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the results of all workers."""
        observations, rewards, dones, infos = zip(*self._receive(), strict=True)
        return self._stack(observations), np.stack(rewards), np.stack(dones), infos  # type: ignore[return-value]

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment. ``compute_reward`` runs in this process, also while the workers step."""
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
        """Ask all workers to call a method of their service.

        :param values: (n_envs, …) arguments; each worker gets the entries of its environments.
        """
        for worker, part in zip(self.workers, self._slices, strict=True):
            worker.send(method, *(value[part] for value in values))

    def _receive(self) -> list[Any]:
        """Return the result of each environment."""
        return [result for worker in self.workers for result in worker.receive(self._step_timeout)]

    def _apply(self, indices: VecEnvIndices, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        results = []
        for index in self._get_indices(indices):
            for worker, part in zip(self.workers, self._slices, strict=True):
                if part.start <= index < part.stop:
                    worker.send("apply", index - part.start, function, *arguments)
                    results.append(worker.receive(self._step_timeout))
        return results
