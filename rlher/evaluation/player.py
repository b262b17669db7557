"""Play the evaluation episodes of a training run, so that each depends on nothing but the model and its seed."""

import copy
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import torch as th
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher.algos.factory import build_inference_model
from rlher.config.training import TrainConfig
from rlher.core.rng import preserve_rng_state, seed_generators
from rlher.envs.make import make_env
from rlher.envs.normalize import GoalNormalize
from rlher.evaluation.rollout import Episode, OnStep, Policy, make_policy, play_episode
from rlher.runs import model_file


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
