"""What a model was trained to see and do, kept beside its weights and held against the environment it is to act in."""

import json
import zipfile
from typing import Any

import gymnasium as gym
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from rlher.core.errors import UserError

MEMBER = "spaces.json"


def write(archive: zipfile.ZipFile, model: OffPolicyAlgorithm) -> None:
    """Keep a model's spaces in its file, as its environment declares them."""
    archive.writestr(MEMBER, json.dumps(described(*_spaces(model))))


def require_same(archive: zipfile.ZipFile, observation_space: gym.Space, action_space: gym.Space) -> None:
    """Hold the spaces of an environment against those in a model's file; a file without any fits all.

    :raises UserError: naming what it was, and what it is.
    """
    if MEMBER not in archive.namelist():
        return
    before, now = json.loads(archive.read(MEMBER)), described(observation_space, action_space)
    for what, found in now.items():
        if before[what] != found:
            raise UserError(
                f"{archive.filename} was trained with {what} {before[what]}, but the environment's are {found} now."
            )


def require_fit(archive: zipfile.ZipFile, model: OffPolicyAlgorithm) -> None:
    """Do :func:`require_same` with the environment that a model was built for."""
    require_same(archive, *_spaces(model))


def described(observation_space: gym.Space, action_space: gym.Space) -> dict[str, str]:
    """Say what of the spaces a network depends on: of observations the shapes, of actions the bounds too."""
    parts = getattr(observation_space, "spaces", {"": observation_space})
    seen = ", ".join(f"{key} {_shape(part)}" for key, part in sorted(parts.items()))
    return {"observations": seen, "actions": str(action_space)}


def _shape(space: gym.Space) -> str:
    return f"Box{space.shape}" if isinstance(space, gym.spaces.Box) else str(space)


def _spaces(model: OffPolicyAlgorithm) -> tuple[gym.Space, gym.Space]:
    env: Any = model.env
    while hasattr(env, "venv"):
        env = env.venv
    return env.observation_space, env.action_space
