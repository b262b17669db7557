"""Load Stable-Baselines3 zips that rlher did not write; they are unpickled, which needs ``--trust-pickle``.

Such a file has no config to rebuild the model from, and unpickling runs any code the file names. The same holds for
RL Zoo's ``vecnormalize.pkl``, which is loaded if it lies beside the model.
"""

import importlib.util
import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from rlher.algos import goal_normalizer
from rlher.config.algorithms import ALGORITHMS
from rlher.config.commands import PlayConfig
from rlher.config.environment import EnvConfig
from rlher.core.console import escape_control
from rlher.core.errors import MissingFile, UserError, first_line
from rlher.core.user_code import load_object
from rlher.envs.make import make_env
from rlher.envs.probe import probe
from rlher.evaluation.agent import Agent
from rlher.evaluation.rollout import make_policy

VECNORMALIZE = "vecnormalize.pkl"

# Attributes not needed to act. They are not unpickled if given here, so files of other Python versions load too.
UNUSED: dict[str, Any] = {
    "replay_buffer_class": None,
    "replay_buffer_kwargs": {},
    "buffer_size": 1,
    "optimize_memory_usage": False,
    "learning_rate": 0.0,
    "lr_schedule": lambda _: 0.0,
    "exploration_schedule": lambda _: 0.0,
}


def require_trust(path: Path, config: PlayConfig) -> EnvConfig:
    """Check that a model file may be unpickled and that an environment was named.

    :return: the environment to act in.
    :raises MissingFile: there is no such file.
    :raises UserError: it is not trusted, or no environment was named.
    """
    if not path.is_file():
        raise MissingFile(path, f"there is no model file {path}.")
    if not config.trust_pickle:
        raise UserError(
            f"{path} was not written by rlher, and loading it runs any code pickled in it; add --trust-pickle if you "
            "trust its source."
        )
    if config.env is None:
        raise UserError(f"{path} does not name its environment; add env=<id>.")
    return config.env


def import_standalone(module: str) -> ModuleType:
    """Import a module of rlher under its last name alone, by which an exported model refers to the copy beside it."""
    name = module.rpartition(".")[2]
    if name not in sys.modules:
        spec: Any = importlib.util.spec_from_file_location(name, importlib.import_module(module).__file__)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def load_sb3_zip(path: Path, env_config: EnvConfig, config: PlayConfig, render_mode: str | None) -> Agent:
    """Unpickle a model, and the normaliser beside it if there is one, after a warning.

    :param env_config: environment to act in, as :func:`require_trust` returns it.
    :raises UserError: it cannot be loaded, or was trained in another environment.
    """
    model_class = _algorithm_class(path)
    env_config = probe(env_config)
    env = make_env(env_config, render_mode=render_mode)
    normalizer_file = find_vecnormalize(path)
    names = f"{path} and {normalizer_file}" if normalizer_file else str(path)
    print(
        escape_control(f"warning: unpickling {names}: any code in it runs now with your permissions."), file=sys.stderr
    )
    venv: VecEnv = DummyVecEnv([lambda: env])
    try:
        import_standalone(goal_normalizer.__name__)
        normalizer = VecNormalize.load(str(normalizer_file), venv) if normalizer_file else None
        model = model_class.load(path, env=normalizer or venv, device=config.device, custom_objects=UNUSED)
    except Exception as error:  # unpickled code can raise anything
        raise UserError(f"{names} cannot be used in {env_config.id}: {first_line(error)}.") from error
    policy = make_policy(model, config.deterministic)
    if normalizer is not None:
        return Agent(lambda observation: policy(dict(normalizer.normalize_obs(observation))), env, env_config, model)
    return Agent(policy, env, env_config, model)


def _algorithm_class(path: Path) -> type[OffPolicyAlgorithm]:
    """Return the algorithm of an SB3 zip, which names only the module of its policy.

    :raises UserError: it is no model of such an algorithm.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            module = json.loads(archive.read("data"))["policy_class"]["__module__"]
        name = module.split(".")[1]
    except Exception as error:  # zipfile and json raise many exceptions for damaged files
        raise UserError(f"{path} is not a Stable-Baselines3 model ({first_line(error)}).") from error
    if name not in ALGORITHMS:
        raise UserError(f"{path} is a {name} model; use a model of {', '.join(ALGORITHMS)}.")
    return load_object(ALGORITHMS[name].sb3)


def find_vecnormalize(path: Path) -> Path | None:
    """Return RL Zoo's ``vecnormalize.pkl`` beside the model or in a subfolder, None if there is none."""
    places = (path.parent / VECNORMALIZE, path.with_suffix("") / VECNORMALIZE, *path.parent.glob(f"*/{VECNORMALIZE}"))
    return next((place for place in places if place.is_file()), None)
