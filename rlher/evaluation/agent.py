"""Load a trained agent from its run folder: the policy, its normaliser and an environment to act in."""

from dataclasses import dataclass

import gymnasium as gym
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher.algos.factory import build_inference_model, validate_actions
from rlher.config.environment import EnvConfig
from rlher.envs.make import make_env
from rlher.envs.normalize import GoalNormalize
from rlher.evaluation.rollout import Policy, make_policy
from rlher.runs import model_file
from rlher.runs.run_folder import MODELS, Run


@dataclass(frozen=True)
class Agent:
    """A policy with the environment it acts in.

    :param policy: maps one observation of ``env``, not normalised, to one action.
    :param config: config that ``env`` was built from.
    """

    policy: Policy
    env: gym.Env
    config: EnvConfig


def model_name(run: Run, which: str) -> str:
    """Return the name of a model for printing: "best model, after 1,000 steps"; "model after 500 steps".

    :raises UserError: there is no such model, or it is damaged.
    """
    steps = f"after {model_file.read_timesteps(run.model(which)):,} steps"
    return f"{which} model, {steps}" if which in MODELS else f"model {steps}"


def load_agent(run: Run, which: str, device: str, deterministic: bool, render_mode: str | None) -> Agent:
    """Rebuild a run's model from its config and load the weights; nothing is unpickled.

    :param which: model of the run, as :meth:`Run.choose_model` returns it.
    :raises UserError: there is no such model, or it is damaged.
    """
    env = make_env(run.config.env, render_mode=render_mode)
    model_file.require_spaces(run.model(which), env)
    venv = DummyVecEnv([lambda: env])
    validate_actions(run.config.algo.name, env.action_space)
    normalizer = (
        GoalNormalize(venv, run.config.normalize.clip, training=False) if run.config.normalize.enabled else None
    )
    model = build_inference_model(run.config.algo, normalizer or venv, device)
    model_file.load_policy(run.model(which), model, normalizer)
    return Agent(make_policy(model, normalizer, deterministic), env, run.config.env)
