"""Find and load the agent for `rlher evaluate`, `enjoy`, `collect` and `export`: a model of a run, or an SB3 zip."""

import copy
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import gymnasium as gym
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher.algos.factory import build_inference_model, validate_actions, validate_device
from rlher.config.commands import PlayConfig
from rlher.config.environment import EnvConfig
from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.core.files import relative
from rlher.envs.make import make_env
from rlher.evaluation.metrics import summarize
from rlher.evaluation.rollout import Policy, make_policy, play_episodes, with_bar
from rlher.run import lookup, model_file
from rlher.run.run_folder import MODELS, RunFolder


@dataclass(frozen=True)
class Agent:
    """A policy with the environment it acts in.

    :param policy: maps one observation of ``env`` to one action.
    :param config: config that ``env`` was built from.
    :param model: what ``policy`` belongs to.
    """

    policy: Policy
    env: gym.Env
    config: EnvConfig
    model: OffPolicyAlgorithm


@dataclass(frozen=True)
class Source:
    """An agent that can be loaded.

    :param name: name for printing.
    :param folder: folder for its video.
    :param keys: keys that identify it in JSON output.
    :param env: config of its environment; for an SB3 zip as typed, without the defaults of the loaded agent.
    :param load: loads the agent with a render mode.
    """

    name: str
    folder: Path
    keys: dict[str, str]
    env: EnvConfig
    load: Callable[[str | None], Agent]

    def evaluate(self, episodes: int, seed: int) -> dict[str, Any]:
        """Play episodes, and return :attr:`keys` and the metrics; show a progress bar if stderr is a terminal."""
        agent = self.load(None)
        with closing(agent.env):
            played = play_episodes(agent.env, agent.policy, episodes, seed)
            return {**self.keys, **summarize(list(with_bar(played, episodes)))}


def find_source(config: PlayConfig) -> Source:
    """Return the agent that ``run=`` and ``checkpoint=``, or ``agent=``, name.

    :raises UserError: there is no such run, model or checkpoint, or an SB3 zip is not trusted.
    """
    validate_device(config.device)
    if config.run and config.run.endswith(".zip") and not Path(config.run).is_dir():
        path = Path(config.run).absolute()  # building the environment may change the current folder
        folder = lookup.folder_of_model(path)
        if folder is None:
            return _sb3_source(path, config)
        config = replace(config, run=str(relative(folder)), checkpoint=path.stem.removesuffix("_model"))
    if config.agent and config.run:
        raise UserError(f"run={config.run} and agent={config.agent} name two agents; give one of them.")
    name = str(lookup.agent_folder(config.agent)) if config.agent else config.run
    run = lookup.find(name, config.logs, config.trust_code)
    if config.env is not None:
        raise UserError(
            f"env={config.env.id} cannot replace the environment of {run}, {run.config.env.id}; leave env= out."
        )
    which = run.choose_model(config.checkpoint)
    return Source(
        f"{config.agent or run}, {model_name(run, which)}",
        Path.cwd() if config.agent else run.folder,
        {"agent": config.agent} if config.agent else {"run": str(run), "checkpoint": which},
        run.config.env,
        lambda mode: load_agent(run, which, config.device, config.deterministic, mode),
    )


def _sb3_source(path: Path, config: PlayConfig) -> Source:
    from rlher.evaluation import sb3_import  # which imports Agent from here

    env, name = sb3_import.require_trust(path, config), str(config.run)
    return Source(
        name, path.parent, {"model": name}, env, lambda mode: sb3_import.load_sb3_zip(path, env, config, mode)
    )


def model_name(run: RunFolder, which: str) -> str:
    """Return the name of a model for printing: "best model, after 1,000 steps"; "model after 500 steps".

    :raises UserError: there is no such model, or it is damaged.
    """
    steps = f"after {model_file.read_timesteps(run.model(which)):,} steps"
    return f"{which} model, {steps}" if which in MODELS else f"model {steps}"


def load_agent(run: RunFolder, which: str, device: str, deterministic: bool, render_mode: str | None) -> Agent:
    """Load a model of a run, and make the environment it acts in.

    :param which: model of the run, as :meth:`RunFolder.choose_model` returns it.
    :raises UserError: there is no such model, or it is damaged.
    """
    env = make_env(run.config.env, render_mode=render_mode)
    model_file.require_spaces(run.model(which), env)
    validate_actions(run.config.algo.name, env.action_space)
    model = load_model(run.config, run.model(which), env, device)
    return Agent(make_policy(model, deterministic), env, run.config.env, model)


def load_model(config: TrainConfig, file: Path | BytesIO, env: gym.Env, device: str = "cpu") -> OffPolicyAlgorithm:
    """Rebuild a run's model from its config and load the weights; nothing is unpickled.

    :param file: model file of the run.
    :param env: environment of the run, for its spaces.
    :raises UserError: the file is damaged.
    """
    venv = DummyVecEnv([lambda: env])
    # The model seeds its action space, which all environments of a class may share.
    venv.action_space = copy.deepcopy(venv.action_space)
    model = build_inference_model(config, venv, device)
    model_file.load_policy(file, model)
    return model
