"""A Stable-Baselines3 zip from elsewhere, which is unpickled: only where a person has said that they trust it.

Such a file has no config that its model could be rebuilt from. Its classes and functions are pickled in it, and
unpickling runs whatever code the file names, so ``--trust-pickle`` is asked for, and a warning comes before anything is
unpickled. The same is true of RL Zoo's ``vecnormalize.pkl``, which is taken along where it lies beside the model.
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import EnvConfig
from rlher.config.saved_model import ReplayConfig
from rlher.core.console import escape_control
from rlher.core.errors import UserError, first_line
from rlher.envs import make_env
from rlher.envs.contract.probe import probe
from rlher.evaluation.agent import Agent
from rlher.evaluation.policy import make_policy

NORMALIZER = "vecnormalize.pkl"
# What acting needs no part of. Given here it is not unpickled, so that a file of another Python version still loads.
UNUSED: dict[str, Any] = {
    "replay_buffer_class": None,
    "replay_buffer_kwargs": {},
    "buffer_size": 1,
    "optimize_memory_usage": False,
    "learning_rate": 0.0,
    "lr_schedule": lambda _: 0.0,
    "exploration_schedule": lambda _: 0.0,
}


def require_trust(path: Path, config: ReplayConfig) -> EnvConfig:
    """Refuse a model file from elsewhere unless a person has said that they trust it, and where it is to act.

    :return: the environment it is to act in.
    :raises UserError: it is of a run of rlher's, it is not trusted, or no environment was named.
    """
    if not path.is_file():
        raise UserError(f"there is no model file {path}.")
    home = path.parent.parent if path.parent.name == "models" else path.parent
    if (home / "config.yaml").exists():
        which = path.stem.removesuffix("_model")
        raise UserError(f"{path} is a model of the run {home}: name the folder, and checkpoint={which}.")
    if not config.trust_pickle:
        raise UserError(
            f"{path} is not of a run folder, and reading a Stable-Baselines3 zip from elsewhere runs whatever code is "
            "pickled in it. Add --trust-pickle if you know where it comes from."
        )
    if config.env is None:
        raise UserError(f"{path} does not say what it was trained in: add env=<id>.")
    return config.env


def load_agent(path: Path, env_config: EnvConfig, config: ReplayConfig, render_mode: str | None) -> Agent:
    """Unpickle a model, and the normaliser beside it where there is one, with a warning.

    :param env_config: environment to act in, as :func:`require_trust` returns it.
    :raises UserError: it cannot be read here, or was trained in another environment.
    """
    kind = _class_of(path)
    env_config = probe(env_config)
    env = make_env(env_config, render_mode=render_mode)
    normalizer_file = _normalizer_beside(path)
    names = f"{path} and {normalizer_file}" if normalizer_file else str(path)
    print(escape_control(f"warning: unpickling {names}: any code in it runs now, with your rights."), file=sys.stderr)
    venv: VecEnv = DummyVecEnv([lambda: env])
    try:
        normalizer = _load_normalizer(normalizer_file, venv) if normalizer_file else None
        model = kind.load(path, env=normalizer or venv, device=config.device, custom_objects=UNUSED)
    except Exception as error:  # anything at all: it is somebody else's code that runs
        raise UserError(f"{names} cannot be used in {env_config.id}: {first_line(error)}.") from error
    return Agent(make_policy(model, normalizer, config.deterministic), env, env_config)


def _class_of(path: Path) -> type[OffPolicyAlgorithm]:
    """Tell an SB3 zip's algorithm from the module of its policy, which is all it says about it."""
    try:
        with zipfile.ZipFile(path) as archive:
            module = json.loads(archive.read("data"))["policy_class"]["__module__"]
        name = module.split(".")[1]
    except Exception as error:  # damaged, encrypted or another's, in any of the ways that zipfile and json tell it
        raise UserError(f"{path} is not a model of Stable-Baselines3 ({first_line(error)}).") from error
    if name not in ALGORITHMS:
        raise UserError(f"{path} is a model of {name}; rlher acts with those of {', '.join(ALGORITHMS)}.")
    return ALGORITHMS[name].load("sb3")


def _normalizer_beside(path: Path) -> Path | None:
    """Find RL Zoo's ``vecnormalize.pkl``: beside the model, or in the folder of its environment's name."""
    places = (path.parent / NORMALIZER, path.with_suffix("") / NORMALIZER, *path.parent.glob(f"*/{NORMALIZER}"))
    return next((place for place in places if place.is_file()), None)


def _load_normalizer(path: Path, venv: VecEnv) -> VecNormalize:
    normalizer = VecNormalize.load(str(path), venv)
    normalizer.training = False
    return normalizer
