"""A controller for FetchReach: moves the hand straight to the goal."""

from typing import Any

import numpy as np

from rlher.demonstrations.controllers.fetch_action import fetch_action


class FetchReach:
    """Moves the hand straight to the goal."""

    def __init__(self, env: Any) -> None:
        pass

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action (4,)."""
        return fetch_action(observation["desired_goal"] - observation["achieved_goal"])
