"""Processes that run one environment each: starting, waiting for an answer, and ending them.

It uses a private part of Stable-Baselines3: ``_worker``, the function that a worker process runs. ``SubprocVecEnv``
starts workers in its constructor only, which cannot replace one that is lost. If that name changes in a later SB3,
this import fails, and tests/envs/test_subproc.py with it.
"""

import contextlib
import math
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env.base_vec_env import CloudpickleWrapper
from stable_baselines3.common.vec_env.subproc_vec_env import _worker

from rlher.config.environment import EnvConfig
from rlher.core.fork_server import RUN_SIGNALS, context, leave_server
from rlher.core.signals import signal_name

GRACE_SECONDS = 0.5
"""Extra wait at the end of a timeout, in case this process was suspended longer than the worker."""

POLL_SECONDS = 1.0
"""Length of one wait within a timeout."""

CLOSE_SECONDS = 5.0
"""Time limit for workers to end after they are asked to; then they are killed."""

STEP_SECONDS = 300.0
"""Default of ``env.step_timeout``: far longer than a step of any working simulator."""

BUILD_SECONDS = 300.0
"""Time limit for a new process to import and build its environment."""


class WorkerLost(Exception):
    """A worker process died or hangs; the message completes the sentence "the process …"."""


def step_seconds(cfg: EnvConfig) -> float | None:
    """Return how long a step or reset in a worker process may take; None: no limit."""
    return STEP_SECONDS if cfg.step_timeout is None else cfg.step_timeout or None


class Timeout:
    """A time limit for several answers together, excluding time the whole process group was suspended.

    :param seconds: the limit; None: no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.left = math.inf if seconds is None else seconds

    def wait(self, remote: Any) -> bool:
        """Wait for a message on a pipe; return whether it arrived in time."""
        while self.left > 0:
            if self.wait_a_moment(remote):
                return True
        return bool(remote.poll(GRACE_SECONDS))

    def wait_a_moment(self, remote: Any) -> bool:
        """Wait for a message, :data:`POLL_SECONDS` at most; return whether it arrived."""
        seconds, started = min(POLL_SECONDS, self.left), time.monotonic()
        arrived = bool(remote.poll(seconds))
        self.left -= min(time.monotonic() - started, seconds)  # a longer wait includes a suspension
        return arrived


def start_worker(builder: Callable[[], gym.Env]) -> tuple[Any, Any]:
    """Start a worker process that builds an environment; return its pipe and the process."""
    remote, worker_remote = context().Pipe()
    arguments = worker_remote, remote, CloudpickleWrapper(builder)
    # Not a daemon, which could have no children, as a simulator may need; the main process ends it, see close_workers.
    process = context().Process(target=_worker, args=arguments, daemon=False)
    process.start()
    worker_remote.close()
    return remote, process


def ignore_run_signals() -> None:
    """Ignore the signals of a run in a worker process: the main process handles them, and may need one more step.

    The handler does nothing, but is neither blocked nor ``SIG_IGN``: a simulator started from this process would
    inherit those, and the environment could not end it.
    """
    for number in RUN_SIGNALS:
        signal.signal(number, lambda *_: None)
    leave_server()


def exit_reason(process: Any) -> str:
    """Return why a worker does not answer, for the sentence "the process …"."""
    process.join(timeout=1)
    if process.exitcode is None:
        return "stopped answering"
    if process.exitcode < 0:
        return f"died (killed by {signal_name(-process.exitcode)})"
    return f"died (exit status {process.exitcode})"


def close_workers(remotes: Sequence[Any], processes: Sequence[Any]) -> None:
    """End all worker processes, including dead ones, hanging ones and those in the middle of a step."""
    deadline = time.monotonic() + CLOSE_SECONDS
    try:
        for remote in remotes:
            with contextlib.suppress(OSError):
                remote.send(("close", None))
        for remote, process in zip(remotes, processes, strict=True):
            # Answers still in the pipe, the first one possibly half read because of Ctrl-C, then the end of file.
            with contextlib.suppress(Exception):
                while remote.poll(max(deadline - time.monotonic(), 0)):
                    remote.recv()
            end_process(process, max(deadline - time.monotonic(), 0))
            remote.close()
    finally:
        kill(processes)


def kill(processes: Sequence[Any]) -> None:
    """Kill those processes that still run: after Ctrl-C they would outlive this process."""
    for process in processes:
        if process.exitcode is None:
            process.kill()


def end_process(process: Any, seconds: float) -> None:
    """Wait for a process to end, and kill it after ``seconds``."""
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        process.join(CLOSE_SECONDS)  # limited: a process that waits for a lost disk cannot be killed
