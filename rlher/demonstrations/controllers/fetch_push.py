"""A controller for FetchPush: behind the block, down, push."""

from typing import Any

import numpy as np

from rlher.demonstrations.controllers.fetch_action import fetch_action

STAND_OFF = 0.075
"""Distance from the block's centre, on the side away from the goal, at which the hand comes down, in metres."""
CLEARANCE = 0.1
"""Height above the block at which the hand moves over it, in metres."""
HIGH = 0.06
"""Height above the block from which on the hand moves sideways without touching it, in metres."""
LOW = 0.02
"""Height above the block's centre below which the hand can push it, in metres."""
IN_LINE = 0.015
"""Distance of the hand from the line through block and goal up to which it pushes, in metres."""
PLACED = 0.02
"""Distance from the stand-off point within which the hand comes down, in metres."""
DONE = 0.02
"""Distance of the block from the goal at which the hand leaves it alone, in metres."""


class FetchPush:
    """Pushes the block along the line to the goal. It has no memory: each phase follows from the observation."""

    def __init__(self, env: Any) -> None:
        pass

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action (4,)."""
        hand, block = observation["observation"][:3], observation["observation"][3:6]
        to_goal = (observation["desired_goal"] - block)[:2]
        distance = float(np.linalg.norm(to_goal))
        direction = to_goal / max(distance, 1e-6)
        from_block = hand - block
        along = float(from_block[:2] @ direction)
        aside = from_block[:2] - along * direction
        if distance < DONE:
            return fetch_action(np.array([0.0, 0.0, CLEARANCE - from_block[2]]))
        if from_block[2] < LOW and along < 0 and np.linalg.norm(aside) < IN_LINE:
            step = min(0.08, 0.6 * distance) * direction - aside
            return fetch_action(np.append(step, -from_block[2]))
        to_stand_off = -STAND_OFF * direction - from_block[:2]
        if np.linalg.norm(to_stand_off) < PLACED:
            return fetch_action(np.append(to_stand_off, -from_block[2]))
        sideways = to_stand_off if from_block[2] > HIGH else np.zeros(2)
        return fetch_action(np.append(sideways, CLEARANCE - from_block[2]))
