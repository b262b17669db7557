"""The spaces a model was trained in, stored in its file, and compared with those of the environment it is used in."""

import json
import zipfile
from typing import Any

import gymnasium as gym
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from rlher.core.errors import UserError

MEMBER = "spaces.json"


def write(archive: zipfile.ZipFile, model: OffPolicyAlgorithm) -> None:
    """Add the spaces of a model's environment to its file."""
    archive.writestr(MEMBER, json.dumps(describe_spaces(*_spaces_of(model))))


def require_same_spaces(archive: zipfile.ZipFile, observation_space: gym.Space, action_space: gym.Space) -> None:
    """Raise UserError unless an environment has the spaces in a model's file; older files have none and fit all."""
    if MEMBER not in archive.namelist():
        return
    trained = json.loads(archive.read(MEMBER))
    for part, found in describe_spaces(observation_space, action_space).items():
        if trained[part] != found:
            raise UserError(
                f"{archive.filename} was trained with {part} {trained[part]}, but the environment has {found}; use the "
                "environment's options from the training."
            )


def require_fitting_model(archive: zipfile.ZipFile, model: OffPolicyAlgorithm) -> None:
    """Raise UserError unless a model was built for the spaces in a file."""
    require_same_spaces(archive, *_spaces_of(model))


def describe_spaces(observation_space: gym.Space, action_space: gym.Space) -> dict[str, str]:
    """Return the properties that a network depends on, as text: shapes of observations, shape and bounds of actions."""
    parts = getattr(observation_space, "spaces", {"": observation_space})
    observations = ", ".join(f"{key} {_shape(part)}" for key, part in sorted(parts.items()))
    return {"observations": observations, "actions": str(action_space)}


def _shape(space: gym.Space) -> str:
    return f"Box{space.shape}" if isinstance(space, gym.spaces.Box) else str(space)


def _spaces_of(model: OffPolicyAlgorithm) -> tuple[gym.Space, gym.Space]:
    """Return the spaces of a model's environment below its wrappers."""
    env: Any = model.env
    while hasattr(env, "venv"):
        env = env.venv
    return env.observation_space, env.action_space
