"""A recording of random episodes, the input of probing and of the contract check."""

import time
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.core.errors import EnvironmentFault, as_fault
from rlher.envs.success_info import as_flag

MAX_STEPS = 1000
SECONDS = 0.5
SECONDS_WITHOUT_LIMIT = 5.0
"""Time to wait for the first truncation if the environment has no registered time limit."""

MIN_STEPS = 4
"""Further steps that are recorded after the first one, however slow the environment is."""


@dataclass
class Recording:
    """Steps of random episodes, one entry per step in every list.

    Observations and rewards are those that ``step`` returned; ``steps_of_episode`` counts from 1.
    """

    observations: list[dict[str, np.ndarray]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: list[bool] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)
    steps_of_episode: list[int] = field(default_factory=list)

    @property
    def achieved(self) -> np.ndarray:
        """Achieved goals, one row per step."""
        return np.stack([observation["achieved_goal"] for observation in self.observations])

    @property
    def desired(self) -> np.ndarray:
        """Desired goals, one row per step."""
        return np.stack([observation["desired_goal"] for observation in self.observations])

    @property
    def truncated_lengths(self) -> list[int]:
        """Lengths of the episodes that were truncated, in their order."""
        steps = zip(self.steps_of_episode, self.truncated, strict=True)
        return [length for length, truncated in steps if truncated]

    def info_flags(self, key: str | None) -> np.ndarray:
        """Return ``info[key]`` of each step as bool; False where it is missing.

        :raises EnvironmentFault: a value is neither true nor false.
        """
        return np.array([key is not None and as_flag(info.get(key), key) for info in self.infos], dtype=bool)


def record_random_rollout(env: gym.Env, seed: int = 0, seconds: float = SECONDS) -> Recording:
    """Record random actions for some time; up to 5 s if the time limit is unknown and not seen yet.

    :param seed: of the first reset and of the actions.
    """
    limit_known = env.spec is not None and env.spec.max_episode_steps is not None
    recording = Recording()
    env.action_space.seed(seed)
    env.reset(seed=seed)
    started = time.monotonic()
    length = 0
    for step in range(MAX_STEPS):
        limit = seconds if limit_known or any(recording.truncated) else SECONDS_WITHOUT_LIMIT
        if step > MIN_STEPS and time.monotonic() - started > limit:
            break
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        length += 1
        recording.observations.append({key: np.array(value) for key, value in observation.items()})
        recording.rewards.append(float(reward))
        recording.terminated.append(bool(terminated))
        recording.truncated.append(bool(truncated))
        recording.infos.append(dict(info))
        recording.steps_of_episode.append(length)
        if terminated or truncated:
            env.reset()
            length = 0
    return recording


def compute_single_reward(env: gym.Env, achieved: np.ndarray, desired: np.ndarray, info: Any) -> float:
    """Return the environment's ``compute_reward`` of one pair of goals.

    :raises EnvironmentFault: it raised, or is not one finite number.
    """
    try:
        reward = float(np.asarray(env.get_wrapper_attr("compute_reward")(achieved, desired, info)).reshape(()))
    except BaseException as error:
        raise as_fault(error, "compute_reward of one pair of goals") from error
    if not np.isfinite(reward):
        raise EnvironmentFault(f"compute_reward of one pair of goals returned {reward}.")
    return reward
