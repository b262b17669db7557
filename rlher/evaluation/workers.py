"""Evaluation episodes in worker processes beside training, or in this process.

The episodes of an evaluation are divided into groups of :data:`GROUP`, each of which is played in a new environment,
and every episode has its own seed. So the results do not depend on the number of processes.
"""

import copy
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import gymnasium as gym
import torch as th
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher.algos.factory import build_inference_model
from rlher.config.training import TrainConfig
from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault
from rlher.core.rng import preserve_rng_state, seed_generators
from rlher.core.signals import StopRequest
from rlher.core.workers import BUILD_SECONDS, Timeout, Worker, WorkerLost, close_workers, report
from rlher.envs.make import make_env
from rlher.envs.normalize import GoalNormalize
from rlher.envs.processes import step_seconds
from rlher.evaluation.rollout import Episode, OnStep, Policy, make_policy, play_episode
from rlher.runs import model_file

GROUP = 25
"""Episodes that one process plays one after the other: a usual evaluation needs one process, a final one several."""

STOP_SECONDS = 0.2
"""Seconds between two looks at a request to stop while this process waits."""


class Evaluation(Protocol):
    """The episodes of one evaluation."""

    def done(self) -> bool:
        """Return whether all episodes are played, or a process failed."""

    def episodes(self) -> list[Episode]:
        """Wait for the episodes and return them in the order of their seeds.

        :raises EnvironmentFault: the environment failed, or its processes were lost too often.
        :raises KeyboardInterrupt: a stop was requested; it can be called again.
        """


class EpisodePlayer:
    """Plays episodes with models of one training run, in this process, on the CPU, with one thread.

    It leaves the generators of random numbers and the number of threads as they are.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._built: tuple[Any, GoalNormalize | None] | None = None

    def play(
        self,
        model: bytes,
        seeds: Sequence[int],
        on_episode: Callable[[Episode], None],
        on_step: OnStep | None = None,
    ) -> None:
        """Play an episode for each seed in a new environment.

        :param model: content of a model file.
        :param on_episode: called with each episode when it is over.
        :param on_step: as in :func:`~rlher.evaluation.rollout.play_episode`.
        :raises EnvironmentFault: the environment failed.
        """
        with preserve_rng_state(), _one_thread():
            seed_generators(seeds[0])
            env = make_env(self._config.env)
            try:
                policy = self.load(model, env)
                for seed in seeds:
                    seed_generators(seed)
                    on_episode(play_episode(env, policy, seed, on_step))
            finally:
                env.close()

    def load(self, model: bytes, env: gym.Env) -> Policy:
        """Return the policy of a model file's content for an environment of the run."""
        if self._built is None:
            venv = DummyVecEnv([lambda: env])
            # the model seeds its action space, which all environments of a class may share
            venv.action_space = copy.deepcopy(venv.action_space)
            normalize = self._config.normalize
            normalizer = GoalNormalize(venv, normalize.clip, training=False) if normalize.enabled else None
            self._built = build_inference_model(self._config.algo, normalizer or venv, "cpu"), normalizer
        model_file.load_policy(io.BytesIO(model), *self._built)
        return make_policy(*self._built)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread within the block: sums of several threads may differ in their last digit."""
    before = th.get_num_threads()
    th.set_num_threads(1)
    try:
        yield
    finally:
        th.set_num_threads(before)


class PlayerService:
    """What a worker does: it plays groups of episodes."""

    def __init__(self, config: TrainConfig) -> None:
        th.set_flush_denormal(True)  # as in setup.prepare
        self._player = EpisodePlayer(config)

    def play(self, model: bytes, seeds: Sequence[int]) -> None:
        """Report each episode when it is over, and progress at each step."""
        self._player.play(model, seeds, on_episode=report, on_step=lambda *_: report())


class EvaluationWorkers:
    """Plays evaluations of a training run in ``eval.workers`` processes, in this one if there are none.

    A process that dies, or needs longer than ``env.step_timeout`` for a step, is replaced, and its episode is played
    again; after ``env.max_restarts`` replacements for one episode the evaluation fails.
    """

    def __init__(self, config: TrainConfig, stop: StopRequest) -> None:
        self._config, self._stop, self._count = config, stop, config.eval.workers or 0
        self._player = EpisodePlayer(config)
        self._threads = ThreadPoolExecutor(max(self._count, 1))  # each thread has its own worker process
        self._workers: dict[int, Worker] = {}
        """The worker of each thread, by the thread's id."""
        self._closed = False

    def start(self, model: bytes, episodes: int, seed: int) -> Evaluation:
        """Start to play episodes with a model file's content, on seeds that count up from ``seed``."""
        seeds = range(seed, seed + episodes)
        groups = [seeds[first : first + GROUP] for first in range(0, episodes, GROUP)]
        if not self._count:
            return _PlayedLater(self._player, model, groups, self._stop)
        return _PlayedByWorkers([self._threads.submit(self._play, model, group) for group in groups], self._stop)

    def start_early(self) -> None:
        """Start a process before the first evaluation needs it."""
        if self._count:
            self._threads.submit(self._worker)

    def close(self) -> None:
        """End all processes, including hanging ones; evaluations in progress are dropped."""
        self._closed = True
        for worker in list(self._workers.values()):
            worker.hang_up()
        try:
            self._threads.shutdown(cancel_futures=True)
        finally:
            close_workers(list(self._workers.values()))

    def _play(self, model: bytes, seeds: Sequence[int]) -> list[Episode]:
        """Play a group of episodes in the worker of this thread, and in those that replace it."""
        episodes: list[Episode] = []
        restarts = 0
        while (played := len(episodes)) < len(seeds):
            try:
                worker = self._worker()
                worker.send("play", model, seeds[played:])
                # The environment is built before the first step.
                timeout = Timeout(step_seconds(self._config.env), "see env.step_timeout", extra=BUILD_SECONDS)
                worker.receive(timeout, episodes.append)
            except WorkerLost as error:
                self._workers.pop(threading.get_ident()).kill()
                restarts = restarts + 1 if len(episodes) == played else 1
                loss = f"{self._config.env.id}: the process of the evaluation {error}"
                if len(episodes) < len(seeds) and (self._closed or restarts > self._config.env.max_restarts):
                    after = f", after {restarts - 1} restart{'s' if restarts > 2 else ''}" if restarts > 1 else ""
                    raise EnvironmentFault(f"{loss} in the episode of seed {seeds[len(episodes)]}{after}.") from None
                warn(f"{loss}; a new process replaces it.")
        return episodes

    def _worker(self) -> Worker:
        """Return the worker of this thread, which is started by the first call."""
        thread = threading.get_ident()
        if thread not in self._workers:
            worker = self._workers[thread] = Worker(partial(PlayerService, self._config))
            if self._closed:
                worker.hang_up()
            worker.receive(Timeout(BUILD_SECONDS))
        return self._workers[thread]


class _PlayedLater:
    """An evaluation that is played in this process when its episodes are asked for."""

    def __init__(self, player: EpisodePlayer, model: bytes, groups: Sequence[range], stop: StopRequest) -> None:
        self._player, self._model, self._groups, self._stop = player, model, groups, stop

    def done(self) -> bool:
        return True

    def episodes(self) -> list[Episode]:
        played: list[Episode] = []

        def on_episode(episode: Episode) -> None:
            self._stop.raise_if_requested()
            played.append(episode)

        for seeds in self._groups:
            self._player.play(self._model, seeds, on_episode)
        return played


class _PlayedByWorkers:
    """An evaluation that workers play; each result has the episodes of a group."""

    def __init__(self, results: Sequence[Future[list[Episode]]], stop: StopRequest) -> None:
        self._results, self._stop = results, stop

    def done(self) -> bool:
        return all(result.done() for result in self._results)

    def episodes(self) -> list[Episode]:
        while True:
            done, waiting = wait(self._results, STOP_SECONDS, FIRST_EXCEPTION)
            for result in done:
                result.result()  # raises the exception of a failed group at once
            if not waiting:
                return [episode for result in self._results for episode in result.result()]
            self._stop.raise_if_requested()
