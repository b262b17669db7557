"""A wrapper that records the episode that is played."""

from typing import Any

import gymnasium as gym
import numpy as np

from rlher.core.signals import StopRequest
from rlher.demonstrations.writing import RecordedEpisode
from rlher.evaluation.rollout import Observation
from rlher.her.trajectory import Trajectory


class Recorder(gym.Wrapper):
    """Records the episode since the last reset.

    :param stop: interrupts the episode before its next step, if the user asks for it.
    """

    def __init__(self, env: gym.Env, stop: StopRequest) -> None:
        super().__init__(env)
        self._stop, self._seed = stop, 0
        self._observations: list[Observation] = []
        self._actions: list[np.ndarray] = []
        self._rewards: list[float] = []
        self._success: list[bool] = []
        self._terminated = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and begin a new recording."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._seed, self._observations, self._success = seed or 0, [_copy(observation)], [False]
        self._actions, self._rewards, self._terminated = [], [], False
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and record.

        :raises KeyboardInterrupt: a stop was requested.
        """
        self._stop.raise_if_requested()
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._observations.append(_copy(observation))
        self._actions.append(np.copy(action))
        self._rewards.append(float(reward))
        self._success.append(info["is_success"])
        self._terminated = terminated
        return observation, reward, terminated, truncated, info

    def recorded(self) -> RecordedEpisode:
        """Return the episode since the last reset."""
        observations = {key: np.stack([each[key] for each in self._observations]) for key in self._observations[0]}
        trajectory = Trajectory(observations, np.stack(self._actions), np.array(self._rewards), self._terminated)
        return RecordedEpisode(trajectory, self._seed, np.array(self._success))


def _copy(observation: Observation) -> Observation:
    return {key: np.copy(value) for key, value in observation.items()}
