"""One process per environment, and a fresh one in the place of one that died or hangs."""

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.util import Finalize
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import SubprocVecEnv
from stable_baselines3.common.vec_env.base_vec_env import CloudpickleWrapper, VecEnvIndices, VecEnvObs, VecEnvStepReturn
from stable_baselines3.common.vec_env.subproc_vec_env import _stack_obs, _worker

from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault
from rlher.her.choices import LOST

BUILDING = 300.0
"""Seconds in which a fresh process must have imported and built its environment."""

GRACE = 0.5
"""Seconds that an answer is waited for beyond its time: we may have been held longer than who is to answer."""

GLANCE = 1.0
"""Seconds that are waited at a time."""

CLOSING = 5.0
"""Seconds in which processes must have ended that were asked to."""

TO_ALL = {signal.SIGINT, signal.SIGTERM}
"""What a terminal or a batch system sends to every process of a run."""


class Gone(Exception):
    """A process died or hangs; the message says how, in words that follow "the process"."""


class Patience:
    """Seconds that several answers may take together, less what Ctrl-Z, SIGSTOP or a lid that is shut held all of us.

    :param seconds: None: any time.
    """

    def __init__(self, seconds: float | None) -> None:
        self.left = seconds

    def waits(self, remote: Any) -> bool:
        """Wait for something to read; return whether it came in time."""
        if self.left is None:
            return bool(remote.poll(None))
        while self.left > 0:
            glance, began = min(GLANCE, self.left), time.monotonic()
            came = bool(remote.poll(glance))
            self.left -= min(time.monotonic() - began, glance)  # a glance that took longer was held
            if came:
                return True
        return bool(remote.poll(GRACE))


class Workers(SubprocVecEnv):
    """Stable-Baselines3's processes, which outlive the death of one.

    A process that dies, or does not answer in time, is replaced by a fresh one whose environment is reset. The step it
    was lost in has no outcome: it is returned as the end of the episode, truncated where it was last seen, with
    ``info["lost_step"]`` set, by which our replay buffer knows not to store it.

    :param builders: one per environment, called in its process, and again in each that takes its place.
    :param name: what to call the environment in a sentence.
    :param timeout: seconds a step or a reset may take; None: any time.
    :param max_restarts: fresh processes of one environment, with no episode finished in between, after which one more
        death is a fault.
    """

    def __init__(
        self, builders: Sequence[Callable[[], gym.Env]], name: str, timeout: float | None, max_restarts: int
    ) -> None:
        self.restarts = 0
        """Fresh processes so far, of all environments."""
        self._builders, self._name, self._timeout, self._max_restarts = list(builders), name, timeout, max_restarts
        self._in_a_row = [0] * len(builders)
        self._lost: dict[int, tuple[Any, dict]] = {}  # first observation and info of those replaced since their step
        self._seeding = [np.random.SeedSequence() for _ in builders]
        _start_server()
        try:
            super().__init__(self._builders)
        except (EOFError, ConnectionError) as error:
            raise EnvironmentFault(f"{name}: a process died while it built the environment.") from error
        self.remotes = list(self.remotes)
        # At the end of the program multiprocessing would send the SIGTERM that they ignore, and wait.
        self._end_all = Finalize(self, _end_all, (self.remotes, self.processes), exitpriority=0)
        self._newest: Sequence[Any] = []  # observation of each environment
        self._patience = Patience(timeout)  # with the step under way

    def reset(self) -> VecEnvObs:
        """Reset all.

        :raises EnvironmentFault: a process was lost once too often.
        """
        self._lost.clear()
        # What a fresh process is seeded with follows from these: a run that loses one at the same step repeats itself.
        self._seeding = [
            was if seed is None else np.random.SeedSequence(seed)
            for was, seed in zip(self._seeding, self._seeds, strict=True)
        ]
        for index, how in enumerate(zip(self._seeds, self._options, strict=True)):
            with self._replacing(index):
                self._send(index, "reset", how)
        patience = Patience(self._timeout)
        answers = [self._answer(index, patience) or self._lost.pop(index) for index in range(self.num_envs)]
        self._newest, self.reset_infos = zip(*answers, strict=True)  # type: ignore[assignment]
        self._reset_seeds()
        self._reset_options()
        return _stack_obs(self._newest, self.observation_space)

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions.

        :raises EnvironmentFault: a process was lost once too often.
        """
        for index, action in enumerate(actions):
            if index not in self._lost:  # else the episode that this action is for is over
                with self._replacing(index):
                    self._send(index, "step", action)
        self.waiting, self._patience = True, Patience(self._timeout)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for all.

        :raises EnvironmentFault: a process was lost once too often.
        """
        outcomes = [self._answer(index, self._patience) or self._lost_step(index) for index in range(self.num_envs)]
        self.waiting = False
        self._newest, rewards, dones, infos, self.reset_infos = zip(*outcomes, strict=True)  # type: ignore[assignment]
        for index in np.flatnonzero(dones):
            if LOST not in infos[index]:
                self._in_a_row[index] = 0
        observations = _stack_obs(self._newest, self.observation_space)
        return observations, np.stack(rewards), np.stack(dones), infos  # type: ignore[return-value]

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment; where the process is lost, of the one in its place.

        :raises EnvironmentFault: a process was lost once too often.
        """
        call = (method_name, method_args, method_kwargs)
        return [self._call(index, call) for index in self._get_indices(indices)]

    def close(self) -> None:
        """End the processes, those that are dead, hang or are in mid-step included."""
        self.closed = True
        self._end_all()

    # ------------------------------------------------------------------------------------------- one process

    def _send(self, index: int, command: str, data: Any) -> None:
        try:
            self.remotes[index].send((command, data))
        except OSError as error:
            raise Gone(self._obituary(index)) from error

    def _receive(self, index: int, patience: Patience, late: str = "") -> Any:
        remote = self.remotes[index]
        try:
            if patience.waits(remote):
                return remote.recv()
        except (EOFError, OSError) as error:
            raise Gone(self._obituary(index)) from error
        raise Gone(late or f"hung (no answer in {self._timeout:g} s, see env.step_timeout)")

    def _answer(self, index: int, patience: Patience) -> Any | None:
        """Return what a process answers to a step or reset, None where it was lost since it was asked."""
        if index not in self._lost:
            with self._replacing(index):
                return self._receive(index, patience)
        return None

    def _call(self, index: int, call: Any) -> Any:
        while True:
            with self._replacing(index):
                self._send(index, "env_method", call)
                return self._receive(index, Patience(self._timeout))

    def _obituary(self, index: int) -> str:
        process = self.processes[index]
        process.join(timeout=1)
        if process.exitcode is None:
            return "stopped answering"
        if process.exitcode < 0:
            names = {each.value: each.name for each in signal.Signals}  # of the real-time ones only the ends have any
            return f"died (killed by {names.get(-process.exitcode, f'signal {-process.exitcode}')})"
        return f"died (exit status {process.exitcode})"

    # -------------------------------------------------------------------------------------- another in its place

    @contextlib.contextmanager
    def _replacing(self, index: int) -> Iterator[None]:
        try:
            yield
        except Gone as gone:
            self._replace(index, str(gone))

    def _replace(self, index: int, how: str) -> None:
        """Put a fresh process, its environment reset, in the place of one that is gone."""
        while True:
            what = f"{self._name}: the process of environment {index} {how}"
            if self._in_a_row[index] == self._max_restarts:
                count = f"{self._max_restarts} restart{'s' if self._max_restarts > 1 else ''}"
                often = f", after {count} without a finished episode" if self._max_restarts else ""
                raise EnvironmentFault(f"{what}{often}.")
            self._in_a_row[index] += 1
            self.restarts += 1
            warn(f"{what}; its episode ends there, and a fresh process takes its place.")
            try:
                self._lost[index] = self._start(index)
                return
            except Gone as gone:
                how = str(gone)

    def _start(self, index: int) -> tuple[Any, dict]:
        """Start a process in the place of another; return the first observation of its environment, and the info."""
        _end(self.processes[index], 0)
        self.remotes[index].close()
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        self.remotes[index], theirs = context.Pipe()
        arguments = theirs, self.remotes[index], CloudpickleWrapper(self._builders[index])
        self.processes[index] = context.Process(target=_worker, args=arguments, daemon=True)
        self.processes[index].start()
        theirs.close()
        self._send(index, "get_spaces", None)
        self._receive(index, Patience(BUILDING), f"built no environment in {BUILDING:g} s")
        seed = int(self._seeding[index].spawn(1)[0].generate_state(1)[0])
        self._send(index, "reset", (seed, {}))
        return self._receive(index, Patience(self._timeout))

    def _lost_step(self, index: int) -> tuple[Any, float, bool, dict[str, Any], dict]:
        """Return what stands for the outcome of a step that has none."""
        first, reset_info = self._lost.pop(index)
        info = {LOST: True, "TimeLimit.truncated": True, "terminal_observation": self._newest[index]}
        return first, 0.0, True, info, reset_info


def _start_server() -> None:
    """Start the server that processes are forked from, with Ctrl-C and SIGTERM blocked there.

    They reach every process of a run, and of one that a dead server forked we would not know how it ended.
    """
    resource_tracker.ensure_running()  # else the server starts it, which unblocks the signals again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TO_ALL)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals_to_main() -> None:
    """Ignore, in the process of an environment, what reaches every process of a run.

    The main process decides what it means, and may still want a last step. Neither blocked nor ``SIG_IGN``: a simulator
    started from here would inherit that, and the environment could not end it.
    """
    for number in TO_ALL:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TO_ALL)


def _end_all(remotes: Sequence[Any], processes: Sequence[Any]) -> None:
    """End processes, those that are dead, hang or are in mid-step included."""
    deadline = time.monotonic() + CLOSING
    for remote in remotes:
        with contextlib.suppress(OSError):
            remote.send(("close", None))
    for remote, process in zip(remotes, processes, strict=True):
        # What is still under way, perhaps half read when Ctrl-C came; then the end of file.
        with contextlib.suppress(Exception):
            while remote.poll(max(deadline - time.monotonic(), 0)):
                remote.recv()
        _end(process, max(deadline - time.monotonic(), 0))
        remote.close()


def _end(process: Any, patience: float) -> None:
    """Wait for a process to end, and kill it where it does not."""
    process.join(patience)
    if process.exitcode is None:
        process.kill()
        process.join(CLOSING)  # and not for ever: what waits for a disk that is gone cannot even be killed
