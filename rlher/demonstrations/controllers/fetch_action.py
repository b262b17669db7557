"""Actions of the Fetch robot."""

import numpy as np

GAIN = 10.0
"""Action per metre of distance. An action of 1 moves the hand by up to 5 cm."""


def fetch_action(movement: np.ndarray, gripper: float = 0.0) -> np.ndarray:
    """Return the action (4,) that moves the hand.

    :param movement: (3,) distance to move along x, y and z, in metres.
    :param gripper: 1 opens it, -1 closes it, where the environment has one that moves.
    """
    return np.append(np.clip(GAIN * movement, -1, 1), gripper).astype(np.float32)
