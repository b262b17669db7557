"""A faster observation function for highway-env's parking environments.

``KinematicsGoalObservation.observe`` builds two pandas frames to read six numbers from a dictionary. A step calls it
four times, which takes two thirds of the environment's time. The function here reads the same numbers without pandas.
"""

from collections import OrderedDict
from typing import Any

import numpy as np


def observe(self: Any) -> "OrderedDict[str, np.ndarray]":
    """Return the observation of ``KinematicsGoalObservation``: three float64 arrays of shape (features,)."""
    vehicle = self.observer_vehicle
    if not vehicle:
        zeros = np.zeros(len(self.features))
        return OrderedDict(observation=zeros, achieved_goal=zeros.copy(), desired_goal=zeros.copy())
    state, goal = (_features(each.to_dict(), self) for each in (vehicle, vehicle.goal))
    return OrderedDict(observation=state, achieved_goal=state.copy(), desired_goal=goal)


def _features(values: dict[str, float], observation: Any) -> np.ndarray:
    return np.array([values[name] for name in observation.features], dtype=np.float64) / observation.scales


def patch_observation() -> None:
    """Replace highway-env's own function by :func:`observe`, in this process."""
    from highway_env.envs.common.observation import KinematicsGoalObservation

    KinematicsGoalObservation.observe = observe
