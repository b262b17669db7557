"""Evaluation episodes in processes beside training, or in this process.

The episodes of an evaluation are divided into groups of :data:`GROUP`, each of which is played in a new environment,
and every episode has its own seed. So the results do not depend on the number of processes.
"""

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from queue import SimpleQueue
from typing import Any, Protocol

from rlher.config.training import TrainConfig
from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault
from rlher.core.fork_server import context
from rlher.core.signals import StopRequest
from rlher.envs.fork_server import start_fork_server
from rlher.envs.worker_process import (
    BUILD_SECONDS,
    CLOSE_SECONDS,
    GRACE_SECONDS,
    Timeout,
    WorkerLost,
    end_process,
    exit_reason,
    kill,
    step_seconds,
)
from rlher.evaluation.player import EpisodePlayer
from rlher.evaluation.rollout import Episode
from rlher.evaluation.worker_process import IS_CANCELLED, STEPS, serve

GROUP = 25
"""Episodes that one process plays one after the other: a usual evaluation needs one process, a final one several."""

STOP_SECONDS = 0.2
"""Seconds between two looks at a request to stop while this process waits."""


class Evaluation(Protocol):
    """The episodes of one evaluation."""

    def done(self) -> bool:
        """Return whether all processes have played their episodes, or failed."""

    def episodes(self) -> list[Episode]:
        """Wait for the episodes and return them in the order of their seeds.

        :raises EnvironmentFault: the environment failed, or its processes were lost too often.
        :raises KeyboardInterrupt: a stop was requested; it can be called again.
        """


class EvaluationWorkers:
    """Plays evaluations of a training run in ``eval.workers`` processes, in this one if there are none.

    A process that dies, or needs longer than ``env.step_timeout`` for a step, is replaced, and its episode is played
    again; after ``env.max_restarts`` replacements for one episode the evaluation fails.
    """

    def __init__(self, config: TrainConfig, stop: StopRequest) -> None:
        self._config, self._stop, self._player = config, stop, EpisodePlayer(config)
        self._groups: SimpleQueue[_Group | None] = SimpleQueue()
        self._threads: list[_WorkerThread] = []

    def start(self, model: bytes, episodes: int, seed: int) -> Evaluation:
        """Start to play episodes with a model file's content, on seeds that count up from ``seed``."""
        seeds = range(seed, seed + episodes)
        groups = [_Group(model, seeds[first : first + GROUP]) for first in range(0, episodes, GROUP)]
        workers = self._config.eval.workers or 0
        if not workers:
            return _PlayedHere(self._player, groups, self._stop)
        waiting = self._groups.qsize() + len(groups)
        for group in groups:
            self._groups.put(group)
        while len(self._threads) < min(waiting, workers):
            self._start_process()
        return _PlayedElsewhere(groups, self._stop)

    def start_early(self) -> None:
        """Start a process before the first evaluation needs it."""
        if self._config.eval.workers and not self._threads:
            self._start_process()

    def _start_process(self) -> None:
        thread = _WorkerThread(self._config, self._groups)
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        """End all processes, including hanging ones; evaluations in progress are dropped."""
        try:
            for thread in self._threads:
                thread.cancel()
                self._groups.put(None)
            for thread in self._threads:
                thread.end()
        finally:
            kill([thread.process for thread in self._threads if thread.process is not None])


class _Group:
    """Consecutive episodes of one evaluation, played by one process."""

    def __init__(self, model: bytes, seeds: Sequence[int]) -> None:
        self.model, self.seeds = model, seeds
        self.result: Future[list[Episode]] = Future()


class _PlayedHere:
    """An evaluation that is played in this process when its episodes are asked for."""

    def __init__(self, player: EpisodePlayer, groups: Sequence[_Group], stop: StopRequest) -> None:
        self._player, self._groups, self._stop = player, groups, stop

    def done(self) -> bool:
        return True

    def episodes(self) -> list[Episode]:
        played: list[Episode] = []

        def on_episode(episode: Episode) -> None:
            self._stop.raise_if_requested()
            played.append(episode)

        for group in self._groups:
            self._player.play(group.model, group.seeds, on_episode)
        return played


class _PlayedElsewhere:
    """An evaluation that worker processes play."""

    def __init__(self, groups: Sequence[_Group], stop: StopRequest) -> None:
        self._results, self._stop = [group.result for group in groups], stop

    def done(self) -> bool:
        return all(result.done() for result in self._results)

    def episodes(self) -> list[Episode]:
        while wait(self._results, STOP_SECONDS, FIRST_EXCEPTION).not_done:
            if any(result.done() and result.exception() for result in self._results):
                break
            self._stop.raise_if_requested()
        failed = next((result for result in self._results if result.done() and result.exception()), None)
        return failed.result() if failed else [each for result in self._results for each in result.result()]


class _WorkerThread(threading.Thread):
    """A thread of the main process that gives groups of episodes to a process of its own."""

    def __init__(self, config: TrainConfig, groups: "SimpleQueue[_Group | None]") -> None:
        super().__init__(daemon=True)
        self._config, self._groups = config, groups
        self._timeout = step_seconds(config.env)
        # The environment is built and reset before the first step.
        self._first_timeout = None if self._timeout is None else BUILD_SECONDS + self._timeout
        self._shared = context().RawArray("Q", 2)
        self._remote: Any = None
        self.process: Any = None

    def run(self) -> None:
        """Play groups of episodes until the queue yields None."""
        with contextlib.suppress(Exception):  # the first group tries again, and reports it
            self._start_process()
        while (group := self._groups.get()) is not None and not self._shared[IS_CANCELLED]:
            try:
                group.result.set_result(self._play(group))
            except BaseException as error:
                group.result.set_exception(error)
        if self.process is not None:
            self._remote.close()

    def cancel(self) -> None:
        """Let the process end after its current step."""
        self._shared[IS_CANCELLED] = 1

    def end(self) -> None:
        """Wait for thread and process to end; kill the process if it hangs."""
        self.join(CLOSE_SECONDS)
        if self.process is not None:
            end_process(self.process, CLOSE_SECONDS if not self.is_alive() else 0)
        self.join(CLOSE_SECONDS)

    # ----------------------------------------------------------------------------------- the process

    def _play(self, group: _Group) -> list[Episode]:
        episodes: list[Episode] = []
        restarts = 0
        while len(episodes) < len(group.seeds):
            try:
                if self.process is None:
                    self._start_process()
                self._receive()  # it is ready, and has closed the environment of the group before
                self._shared[STEPS] = 0
                self._send((group.model, group.seeds[len(episodes) :]))
                while len(episodes) < len(group.seeds):
                    episodes.append(self._receive())
                    restarts = 0
            except WorkerLost as error:
                self._end_process()
                loss = f"{self._config.env.id}: the process of the evaluation {error}"
                if self._shared[IS_CANCELLED] or restarts == self._config.env.max_restarts:
                    after = f", after {restarts} restart{'s' if restarts > 1 else ''}" if restarts else ""
                    raise EnvironmentFault(
                        f"{loss} in the episode of seed {group.seeds[len(episodes)]}{after}."
                    ) from None
                restarts += 1
                warn(f"{loss}; a new process plays the episode again.")
        return episodes

    def _start_process(self) -> None:
        start_fork_server()
        remote, worker_remote = context().Pipe()
        process = context().Process(target=serve, args=(worker_remote, self._config, self._shared))
        process.start()
        worker_remote.close()
        self._remote, self.process, self._shared[STEPS] = remote, process, 0

    def _end_process(self) -> None:
        if self.process is not None:
            end_process(self.process, 0)
            self._remote.close()
            self.process = None

    def _send(self, request: Any) -> None:
        try:
            self._remote.send(request)
        except OSError as error:
            raise WorkerLost(exit_reason(self.process)) from error

    def _receive(self) -> Any:
        """Wait for a message as long as the process steps its environment.

        :raises WorkerLost: it died, or its current step takes too long.
        """
        try:
            while True:
                steps = self._shared[STEPS]
                seconds = self._timeout if steps else self._first_timeout
                timeout = Timeout(seconds)
                while timeout.left > 0 and self._shared[STEPS] == steps:
                    if timeout.wait_a_moment(self._remote):
                        return self._received()
                if self._remote.poll(GRACE_SECONDS):
                    return self._received()
                if self._shared[STEPS] == steps:
                    raise WorkerLost(f"hung (no step in {seconds:g} s, see env.step_timeout)")
        except (EOFError, OSError) as error:
            raise WorkerLost(exit_reason(self.process)) from error

    def _received(self) -> Any:
        message = self._remote.recv()
        if isinstance(message, Exception):
            raise message
        return message
