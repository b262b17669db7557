"""A controller for FetchPickAndPlace: over the block, down, close the gripper, carry."""

from typing import Any

import numpy as np

from rlher.demonstrations.controllers.fetch_action import fetch_action

OPEN, CLOSE = 1.0, -1.0

HOVER = np.array([0.0, 0.0, 0.06])
"""Offset from the block from which the gripper descends, in metres."""
ALIGNED = 0.02
"""Horizontal distance below which the gripper may descend, in metres."""
AROUND = 0.015
"""Distance below which the block lies between the fingers, in metres."""
GRASPED = 0.0505
"""Width of the gripper when it holds the block, in metres."""


class FetchPickAndPlace:
    """Takes the block and carries it to the goal. It has no memory: each phase follows from the observation."""

    def __init__(self, env: Any) -> None:
        pass

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action (4,)."""
        state = observation["observation"]
        block, to_block, width = state[3:6], state[6:9], state[9:11].sum()
        if np.linalg.norm(to_block) > AROUND:
            aligned = np.linalg.norm(to_block[:2]) < ALIGNED
            return fetch_action(to_block if aligned else to_block + HOVER, OPEN)
        if width > GRASPED:
            return fetch_action(to_block, CLOSE)
        return fetch_action(observation["desired_goal"] - block, CLOSE)
