"""Models of runs: find the model that `rlher evaluate`, `enjoy` and `collect` use, load it, and act with it.

A policy is a function from an observation to an action.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.config.command_configs import PlayConfig
from rlher.config.training import RunConfig
from rlher.core.errors import UserError
from rlher.core.rng import preserve_rng_state, set_random_seed, torch_threads
from rlher.envs.make import make_env
from rlher.envs.relay import add_hand_goal
from rlher.evaluation.metrics import Episode, summarize
from rlher.evaluation.rollout import OnStep, Policy, play_episodes, track_episodes
from rlher.run import lookup, model_file
from rlher.run.build_model import build_inference_model, require_supported_actions, require_usable_device
from rlher.run.run_folder import MODEL_FILES, RunFolder


def load_model(config: RunConfig, file: Path | BytesIO, env: gym.Env, device: str = "cpu") -> OffPolicyAlgorithm:
    """Rebuild a run's model from its config and load the weights; nothing is unpickled.

    :param file: model file of the run.
    :param env: environment of the run, for its spaces.
    :raises UserError: there is no such file, it is damaged, or the algorithm does not support the actions.
    """
    require_supported_actions(config.algo.name, env.action_space)
    vec_env = DummyVecEnv([lambda: env])
    # The model seeds its action space, which all environments of a class may share.
    vec_env.action_space = copy.deepcopy(vec_env.action_space)
    model = build_inference_model(config, vec_env, device)
    model_file.load_policy_weights(file, model)
    return model


def make_policy(model: OffPolicyAlgorithm, deterministic: bool = True) -> Policy:
    """Return a model's policy as a function from one observation to one action."""
    return lambda observation: model.predict(observation, deterministic=deterministic)[0]


def play_model(
    config: RunConfig,
    file: Path | BytesIO,
    seeds: Sequence[int],
    deterministic: bool = True,
    device: str = "cpu",
    on_step: OnStep | None = None,
) -> Iterator[Episode]:
    """Yield an episode for each seed, all in one new environment; the same model and seeds give the same episodes.

    The global random number generators are seeded, because an environment may draw from them while it is built. Torch
    uses one thread, because sums by several threads may differ in the last digit. Both are restored afterwards.

    :param file: model file of the run.
    :param on_step: as in :func:`~rlher.evaluation.rollout.play_episode`.
    :raises RunError: the environment failed.
    """
    with preserve_rng_state(), torch_threads(1):
        set_random_seed(seeds[0])
        with closing(make_env(config.env)) as env:
            policy = make_policy(load_model(config, file, env, device), deterministic)
            yield from play_episodes(env, policy, seeds, on_step)


@dataclass(frozen=True)
class SavedModel:
    """A model of a run, or of a pretrained agent.

    :param run: run folder of the run or of the pretrained agent.
    :param model_name: ``"best"``, ``"last"`` or a number of steps; the result of
        :meth:`RunFolder.resolve_model_name`.
    :param pretrained_name: name of a pretrained agent, None for a run.
    :param deterministic: whether to use deterministic actions; otherwise they are sampled.
    :param device: torch device of the model.
    """

    run: RunFolder
    model_name: str
    pretrained_name: str | None = None
    deterministic: bool = True
    device: str = "cpu"

    @property
    def name(self) -> str:
        """Name for printing."""
        return f"{self.pretrained_name or self.run}, {self.model_label}"

    @property
    def model_label(self) -> str:
        """Name of the model alone, for printing: "best model, after 1,000 steps"; "model after 500 steps".

        :raises UserError: there is no such model, or it is damaged.
        """
        steps_text = f"after {model_file.read_timesteps(self.run.model_path(self.model_name)):,} steps"
        return f"{self.model_name} model, {steps_text}" if self.model_name in MODEL_FILES else f"model {steps_text}"

    @property
    def identity(self) -> dict[str, str]:
        """Keys and values that identify it in JSON output."""
        if self.pretrained_name:
            return {"agent": self.pretrained_name}
        return {"run": str(self.run), "model": self.model_name}

    def load(self, env: gym.Env) -> OffPolicyAlgorithm:
        """Load the model.

        :param env: environment of the run, for its spaces.
        :raises UserError: there is no such model, or it is damaged.
        """
        return load_model(self.run.config, self.run.model_path(self.model_name), env, self.device)

    def load_policy(self, env: gym.Env) -> Policy:
        """Load the policy for the run's environment without training aids; see :meth:`load`."""
        config = self.run.config.env
        if not config.relay.enabled:
            return make_policy(self.load(env), self.deterministic)
        with closing(make_env(config)) as run_env:
            policy = make_policy(self.load(run_env), self.deterministic)
        return lambda observation: policy(add_hand_goal(observation, config.relay.hand, config.relay.origin))

    def evaluate(self, n_episodes: int, seed: int) -> dict[str, Any]:
        """Play episodes, and return :attr:`identity` and the metrics; show a progress bar if stderr is a terminal."""
        seeds = range(seed, seed + n_episodes)
        file = self.run.model_path(self.model_name)
        results = play_model(self.run.config, file, seeds, self.deterministic, self.device)
        return {**self.identity, **summarize(list(track_episodes(results, n_episodes)))}


def choose_model(config: PlayConfig) -> SavedModel:
    """Return the model that ``run=`` and ``model=``, or ``agent=``, name.

    :param config: its ``run`` is a run folder, or a model file in one.
    :raises UserError: there is no such run or model.
    """
    require_usable_device(config.device)
    if config.agent and config.run:
        raise UserError(f"run={config.run} and agent={config.agent} name two agents; give one of them.")
    run, model_name = lookup.find_run_and_model(config, config.agent)
    return SavedModel(run, model_name, config.agent, config.deterministic, config.device)
