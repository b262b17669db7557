"""highway-env's parking, observed at a third of the cost.

``KinematicsGoalObservation.observe`` builds two pandas frames to pick six numbers out of a dictionary, and a step calls
it four times: two thirds of the environment's time. The function here picks the same numbers from the same dictionary.
"""

from collections import OrderedDict
from typing import Any

import numpy as np


def observe(self: Any) -> "OrderedDict[str, np.ndarray]":
    """Return what ``KinematicsGoalObservation.observe`` returns: three float64 arrays of shape (features,)."""
    vehicle = self.observer_vehicle
    if not vehicle:
        nothing = np.zeros(len(self.features))
        return OrderedDict(observation=nothing, achieved_goal=nothing.copy(), desired_goal=nothing.copy())
    state, goal = (_features(thing.to_dict(), self) for thing in (vehicle, vehicle.goal))
    return OrderedDict(observation=state, achieved_goal=state.copy(), desired_goal=goal)


def _features(values: dict[str, float], observation: Any) -> np.ndarray:
    return np.array([values[name] for name in observation.features], dtype=np.float64) / observation.scales


def quicken() -> None:
    """Put :func:`observe` in the place of highway-env's own, in this process."""
    from highway_env.envs.common.observation import KinematicsGoalObservation

    KinematicsGoalObservation.observe = observe
