"""One process per environment, with a new process in place of one that died or hangs."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.util import Finalize
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import SubprocVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn
from stable_baselines3.common.vec_env.subproc_vec_env import _stack_obs

from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault
from rlher.envs.fork_server import start_fork_server
from rlher.envs.worker_process import (
    BUILD_SECONDS,
    Timeout,
    WorkerLost,
    close_workers,
    end_process,
    exit_reason,
    start_worker,
)
from rlher.her.choices import LOST


class RestartingSubprocVecEnv(SubprocVecEnv):
    """Stable-Baselines3's ``SubprocVecEnv``, which continues after a worker process died or hung.

    A lost worker is replaced by a new one whose environment is reset. The step it was lost in has no result: it is
    returned as the end of the episode, truncated at the last observation, with ``info["lost_step"]`` set, so that our
    replay buffer does not store it.

    :param builders: one per environment, called in its process, and again in each process that replaces it.
    :param name: of the environment, for messages.
    :param timeout: seconds a step or a reset may take; None: no limit.
    :param max_restarts: new processes of one environment without a finished episode in between; one more raises
        EnvironmentFault.
    :param reward_env: environment in this process, whose ``compute_reward`` is called instead of the workers'.
    :param meanwhile: called while the workers build their environments.
    """

    def __init__(
        self,
        builders: Sequence[Callable[[], gym.Env]],
        name: str,
        timeout: float | None,
        max_restarts: int,
        reward_env: gym.Env | None = None,
        meanwhile: Callable[[], Any] = lambda: None,
    ) -> None:
        self.reward_env = reward_env
        self.restarts = 0
        """Number of processes that were replaced, of all environments."""
        self._builders, self._name, self._seconds, self._max_restarts = list(builders), name, timeout, max_restarts
        self._restarts_in_a_row = [0] * len(builders)
        self._first_of_new: dict[int, tuple[Any, dict]] = {}
        """First observation and info of each worker that was replaced since the last step."""
        self._restart_seeds = [np.random.SeedSequence() for _ in builders]
        self._last_obs: Sequence[Any] = []  # of each environment
        self._timeout = Timeout(timeout)  # of the current step
        self.closed = False
        self.remotes: list[Any] = []
        self.processes: list[Any] = []
        # Without it multiprocessing would, at the end of the program, send SIGTERM, which workers ignore, and wait.
        self._close_workers = Finalize(self, close_workers, (self.remotes, self.processes), exitpriority=0)
        try:
            self._start_workers()
            meanwhile()
            spaces = self._wait_until_all_built()
            VecEnv.__init__(self, len(self._builders), *spaces)  # SB3's own would wait for a lost worker
        except BaseException:
            self.close()
            raise

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        self._first_of_new.clear()
        # Seeds of replacements derive from the seeds of the reset, so that a run with the same losses repeats itself.
        self._restart_seeds = [
            previous if seed is None else np.random.SeedSequence(seed)
            for previous, seed in zip(self._restart_seeds, self._seeds, strict=True)
        ]
        for index, arguments in enumerate(zip(self._seeds, self._options, strict=True)):
            with self._replacing_lost(index):
                self._send(index, "reset", arguments)
        timeout = Timeout(self._seconds)
        results = [self._result(index, timeout) or self._first_of_new.pop(index) for index in range(self.num_envs)]
        self._last_obs, self.reset_infos = zip(*results, strict=True)  # type: ignore[assignment]
        self._reset_seeds()
        self._reset_options()
        return _stack_obs(self._last_obs, self.observation_space)

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions to the workers."""
        for index, action in enumerate(actions):
            if index not in self._first_of_new:  # the action belongs to the episode of the lost worker
                with self._replacing_lost(index):
                    self._send(index, "step", action)
        self._timeout = Timeout(self._seconds)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the results of all workers."""
        results = [self._result(index, self._timeout) or self._lost_step(index) for index in range(self.num_envs)]
        self._last_obs, rewards, dones, infos, self.reset_infos = zip(*results, strict=True)  # type: ignore[assignment]
        for index in np.flatnonzero(dones):
            if LOST not in infos[index]:
                self._restarts_in_a_row[index] = 0
        observations = _stack_obs(self._last_obs, self.observation_space)
        return observations, np.stack(rewards), np.stack(dones), infos  # type: ignore[return-value]

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment; if its worker is lost, of the one that replaces it."""
        call = (method_name, method_args, method_kwargs)
        return [self._call(index, "env_method", call) for index in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of each environment; if its worker is lost, of the one that replaces it."""
        return [self._call(index, "get_attr", attr_name) for index in self._get_indices(indices)]

    def close(self) -> None:
        """End all worker processes, including dead ones, hanging ones and those in the middle of a step."""
        self.closed = True
        self._close_workers()
        if self.reward_env is not None:
            self.reward_env.close()

    # ---------------------------------------------------------------------------------- one worker

    def _send(self, index: int, command: str, data: Any) -> None:
        try:
            self.remotes[index].send((command, data))
        except OSError as error:
            raise WorkerLost(exit_reason(self.processes[index])) from error

    def _receive(self, index: int, timeout: Timeout, late: str = "") -> Any:
        remote = self.remotes[index]
        try:
            if timeout.wait(remote):
                return remote.recv()
        except (EOFError, OSError) as error:
            raise WorkerLost(exit_reason(self.processes[index])) from error
        raise WorkerLost(late or f"hung (no answer in {self._seconds:g} s, see env.step_timeout)")

    def _result(self, index: int, timeout: Timeout) -> Any | None:
        """Return a worker's result of a step or reset; None if it was lost since the command was sent."""
        if index not in self._first_of_new:
            with self._replacing_lost(index):
                return self._receive(index, timeout)
        return None

    def _call(self, index: int, command: str, data: Any) -> Any:
        while True:
            with self._replacing_lost(index):
                self._send(index, command, data)
                return self._receive(index, Timeout(self._seconds))

    def _lost_step(self, index: int) -> tuple[Any, float, bool, dict[str, Any], dict]:
        """Return a substitute for the result of a step whose worker was lost."""
        first_obs, reset_info = self._first_of_new.pop(index)
        info = {LOST: True, "TimeLimit.truncated": True, "terminal_observation": self._last_obs[index]}
        return first_obs, 0.0, True, info, reset_info

    # ------------------------------------------------------------------------- start and replacement

    def _start_workers(self) -> None:
        """Start all workers, which build their environments side by side."""
        start_fork_server()
        for builder in self._builders:
            remote, process = start_worker(builder)
            self.remotes.append(remote)
            self.processes.append(process)

    def _wait_until_all_built(self) -> Any:
        """Return the spaces of the first worker's environment."""
        for index in range(len(self._builders)):
            with self._replacing_lost(index):
                self._wait_until_built(index)
        return self._call(0, "get_spaces", None)

    @contextlib.contextmanager
    def _replacing_lost(self, index: int) -> Iterator[None]:
        try:
            yield
        except WorkerLost as error:
            self._replace(index, str(error))

    def _replace(self, index: int, reason: str) -> None:
        """Replace a lost worker by a new one and reset its environment."""
        while True:
            loss = f"{self._name}: the process of environment {index} {reason}"
            if self._restarts_in_a_row[index] == self._max_restarts:
                count = f"{self._max_restarts} restart{'s' if self._max_restarts > 1 else ''}"
                attempts = f", after {count} without a finished episode" if self._max_restarts else ""
                raise EnvironmentFault(f"{loss}{attempts}.")
            self._restarts_in_a_row[index] += 1
            self.restarts += 1
            warn(f"{loss}; its episode ends, and a new process replaces it.")
            try:
                self._first_of_new[index] = self._restart(index)
                return
            except WorkerLost as error:
                reason = str(error)

    def _restart(self, index: int) -> tuple[Any, dict]:
        """Start a new worker in place of a lost one; return its environment's first observation and info."""
        end_process(self.processes[index], 0)
        self.remotes[index].close()
        self.remotes[index], self.processes[index] = start_worker(self._builders[index])
        self._wait_until_built(index)
        seed = int(self._restart_seeds[index].spawn(1)[0].generate_state(1)[0])
        self._send(index, "reset", (seed, {}))
        return self._receive(index, Timeout(self._seconds))

    def _wait_until_built(self, index: int) -> None:
        self._send(index, "get_spaces", None)
        self._receive(index, Timeout(BUILD_SECONDS), f"did not build its environment in {BUILD_SECONDS:g} s")
