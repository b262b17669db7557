"""Play evaluation episodes in worker processes beside training, or in this process.

The episodes of an evaluation are divided into chunks of :data:`EPISODES_PER_CHUNK`. Each chunk is played in a
new environment, and every episode has its own seed. So the results do not depend on the number of processes. Lost
processes are replaced; :mod:`rlher.core.workers` finds out why they were lost.
"""

import io
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch as th

from rlher.config.training import RunConfig
from rlher.core.workers import BUILD_TIMEOUT, RestartLimit, Worker, WorkerLost, close_workers, report_progress
from rlher.evaluation.metrics import Episode, Summary, summarize
from rlher.evaluation.models import play_model

EPISODES_PER_CHUNK = 25
"""Episodes that one process plays in sequence. A usual evaluation needs one process, a final evaluation several."""


@dataclass(frozen=True)
class RunningEvaluation:
    """An evaluation whose episodes are being played.

    :param chunks: the episodes of each chunk.
    :param model_content: content of the model's file.
    :param columns: the columns of its row in ``evaluations.csv`` that are known when it starts.
    """

    chunks: list[Future[list[Episode]]]
    model_content: bytes
    columns: dict[str, Any]

    def done(self) -> bool:
        """Return whether all episodes are played."""
        return all(chunk.done() for chunk in self.chunks)

    def wait(self) -> Summary:
        """Wait for the episodes and return their metrics.

        :raises RunError: the environment failed, or its processes were lost too often.
        """
        return summarize([episode for chunk in self.chunks for episode in chunk.result()])


class EvaluationService:
    """The service of a worker: it plays chunks of episodes."""

    def __init__(self, config: RunConfig) -> None:
        th.set_flush_denormal(True)  # as in training.preparation
        self._config = config

    def play(self, model_content: bytes, seeds: Sequence[int]) -> list[Episode]:
        """Play an episode on each seed. Report progress at each step."""
        file = io.BytesIO(model_content)
        return list(play_model(self._config, file, seeds, on_step=lambda *_: report_progress()))


class EvaluationPool:
    """Plays evaluations of a training run in ``eval.workers`` processes, or in this process if there are none.

    Processes are kept, because importing an environment's package takes a second. One that dies, or needs longer than
    ``env.step_timeout`` for a step, is replaced, and the episodes of its chunk are played again, one by one; after
    ``env.max_restarts`` replacements for one episode the evaluation fails.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._executor = ThreadPoolExecutor(config.eval.workers) if config.eval.workers else None
        self._workers: dict[int, Worker] = {}
        """The worker process of each thread of the executor, by the id of the thread."""
        self._is_closed = False

    def start(self, model_content: bytes, n_episodes: int, seed: int, **columns: Any) -> RunningEvaluation:
        """Start to play episodes with a model file's content, on seeds that count up from ``seed``.

        :param columns: see :class:`RunningEvaluation`.
        :raises RunError: the environment failed in this process.
        """
        seeds = range(seed, seed + n_episodes)
        chunks = [seeds[first : first + EPISODES_PER_CHUNK] for first in range(0, n_episodes, EPISODES_PER_CHUNK)]
        if self._executor:
            futures = [self._executor.submit(self._play, model_content, chunk) for chunk in chunks]
            return RunningEvaluation(futures, model_content, columns)
        file = io.BytesIO(model_content)
        future: Future[list[Episode]] = Future()
        future.set_result([episode for chunk in chunks for episode in play_model(self._config, file, chunk)])
        return RunningEvaluation([future], model_content, columns)

    def close(self) -> None:
        """End all processes, including hanging ones; evaluations in progress are dropped."""
        self._is_closed = True
        for worker in list(self._workers.values()):
            worker.disconnect()  # the thread that waits for it goes on
        try:
            if self._executor:
                self._executor.shutdown(cancel_futures=True)
        finally:
            close_workers(list(self._workers.values()))

    def _play(self, model_content: bytes, seeds: Sequence[int]) -> list[Episode]:
        """Play a chunk of episodes.

        If their worker is lost, they are played one by one, so that each has all of ``env.max_restarts``.
        """
        limit = RestartLimit(self._config.env.max_restarts)
        while True:
            try:
                return self._play_in_worker(model_content, seeds)
            except WorkerLost as lost:
                if self._is_closed:
                    raise
                limit.count_restart(lost, f" in an episode of the seeds {seeds[0]} to {seeds[-1]}")
            if len(seeds) > 1:
                return [episode for seed in seeds for episode in self._play(model_content, [seed])]

    def _play_in_worker(self, model_content: bytes, seeds: Sequence[int]) -> list[Episode]:
        """Play episodes in the worker of this thread, a new one if it has none.

        :raises WorkerLost: the worker died or hung; the thread has none any more.
        """
        env, thread = self._config.env, threading.get_ident()
        try:
            if thread not in self._workers:
                build = partial(EvaluationService, self._config)
                self._workers[thread] = Worker(build, f"{env.id}: the process of the evaluation")
                self._workers[thread].receive(BUILD_TIMEOUT)
            worker = self._workers[thread]
            if self._is_closed:  # then `close` may have missed a worker that has just been started
                raise CancelledError
            worker.send("play", model_content, seeds)
            # The environment is built before the first step.
            episodes: list[Episode] = worker.receive(env.step_timeout, extra_timeout=BUILD_TIMEOUT)
            return episodes
        except WorkerLost:
            self._workers.pop(thread).kill()
            raise
