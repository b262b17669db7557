"""The model that `rlher evaluate`, `enjoy`, `collect` and `export` are asked for."""

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from rlher.algos.build_model import require_supported_actions, require_usable_device
from rlher.config.command_keys import PlayConfig
from rlher.core.errors import UserError
from rlher.envs.make import make_env
from rlher.evaluation.metrics import summarize
from rlher.evaluation.policies import load_model, make_policy, reproducible
from rlher.evaluation.rollout import Policy, play_episodes, track_episodes
from rlher.run import lookup, model_file
from rlher.run.run_folder import MODELS, RunFolder


@dataclass(frozen=True)
class ChosenModel:
    """A model of a run, or of an agent that comes with rlher.

    :param run: its run folder; agents that come with rlher lie in one, too.
    :param model_name: ``"best"``, ``"last"`` or a number of steps, as :meth:`RunFolder.resolve_model` returns it.
    :param bundled_name: name of an agent that comes with rlher; None: a run.
    :param deterministic: deterministic actions, not sampled ones.
    :param device: torch device of the model.
    """

    run: RunFolder
    model_name: str
    bundled_name: str | None = None
    deterministic: bool = True
    device: str = "cpu"

    @property
    def name(self) -> str:
        """Name for printing."""
        return f"{self.bundled_name or self.run}, {self.model_label}"

    @property
    def model_label(self) -> str:
        """Name of the model alone, for printing: "best model, after 1,000 steps"; "model after 500 steps".

        :raises UserError: there is no such model, or it is damaged.
        """
        steps_text = f"after {model_file.read_timesteps(self.run.model_path(self.model_name)):,} steps"
        return f"{self.model_name} model, {steps_text}" if self.model_name in MODELS else f"model {steps_text}"

    @property
    def identity(self) -> dict[str, str]:
        """Keys and values that identify it in JSON output."""
        return {"agent": self.bundled_name} if self.bundled_name else {"run": str(self.run), "model": self.model_name}

    def load(self, env: gym.Env) -> OffPolicyAlgorithm:
        """Load the model.

        :param env: environment of the run, for its spaces.
        :raises UserError: there is no such model, or it is damaged.
        """
        require_supported_actions(self.run.config.algo.name, env.action_space)
        return load_model(self.run.config, self.run.model_path(self.model_name), env, self.device)

    def load_policy(self, env: gym.Env) -> Policy:
        """Load the model as a function from an observation of its environment to an action; see :meth:`load`."""
        return make_policy(self.load(env), self.deterministic)

    def evaluate(self, episodes: int, seed: int) -> dict[str, Any]:
        """Play episodes, and return :attr:`identity` and the metrics; show a progress bar if stderr is a terminal."""
        with reproducible(seed), closing(make_env(self.run.config.env)) as env:
            results = play_episodes(env, self.load_policy(env), range(seed, seed + episodes))
            return {**self.identity, **summarize(list(track_episodes(results, episodes)))}


def choose_model(config: PlayConfig) -> ChosenModel:
    """Return the model that ``run=`` and ``model=``, or ``agent=``, name.

    :param config: its ``run`` is a run folder, or a model file in one.
    :raises UserError: there is no such run or model.
    """
    require_usable_device(config.device)
    if config.agent and config.run:
        raise UserError(f"run={config.run} and agent={config.agent} name two agents; give one of them.")
    run, model = lookup.find_run_and_model(config, config.agent)
    return ChosenModel(run, model, config.agent, config.deterministic, config.device)
