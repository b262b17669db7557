"""Scripted controllers for FetchReach, FetchPush, FetchPickAndPlace and PointMaze.

The controllers of Fetch have no memory: each phase follows from the observation.
"""

from collections import deque
from typing import Any

import numpy as np

FETCH_GAIN = 10.0
"""Action of Fetch per metre of distance. An action of 1 moves the hand by up to 5 cm."""


def fetch_action(movement: np.ndarray, gripper: float = 0.0) -> np.ndarray:
    """Return the action (4,) that moves the hand.

    :param movement: (3,) distance to move along x, y and z, in metres.
    :param gripper: :data:`GRIPPER_OPEN` or :data:`GRIPPER_CLOSED`, where the environment has one that moves.
    """
    return np.append(np.clip(FETCH_GAIN * movement, -1, 1), gripper).astype(np.float32)


def reach(observation: dict[str, np.ndarray]) -> np.ndarray:
    """Return the action (4,) that moves the hand straight to the goal."""
    return fetch_action(observation["desired_goal"] - observation["achieved_goal"])


PUSH_STAND_OFF = 0.075
"""Distance from the block's centre, on the side away from the goal, at which the hand comes down, in metres."""
PUSH_TRAVEL_HEIGHT = 0.1
"""Height above the block at which the hand moves over it, in metres."""
PUSH_SAFE_HEIGHT = 0.06
"""Height above the block from which on the hand moves sideways without touching it, in metres."""
PUSH_CONTACT_HEIGHT = 0.02
"""Height above the block's centre below which the hand can push it, in metres."""
PUSH_IN_LINE = 0.015
"""Distance of the hand from the line through block and goal up to which it pushes, in metres."""
PUSH_PLACED = 0.02
"""Distance from the stand-off point within which the hand comes down, in metres."""
PUSH_DONE = 0.02
"""Distance of the block from the goal at which the hand leaves it alone, in metres."""


def push(observation: dict[str, np.ndarray]) -> np.ndarray:
    """Return the action (4,) that pushes the block along the line to the goal."""
    hand, block = observation["observation"][:3], observation["observation"][3:6]
    to_goal = (observation["desired_goal"] - block)[:2]
    distance = float(np.linalg.norm(to_goal))
    direction = to_goal / max(distance, 1e-6)
    from_block = hand - block
    along = float(from_block[:2] @ direction)
    aside = from_block[:2] - along * direction
    if distance < PUSH_DONE:
        return fetch_action(np.array([0.0, 0.0, PUSH_TRAVEL_HEIGHT - from_block[2]]))
    if from_block[2] < PUSH_CONTACT_HEIGHT and along < 0 and np.linalg.norm(aside) < PUSH_IN_LINE:
        step = min(0.08, 0.6 * distance) * direction - aside
        return fetch_action(np.append(step, -from_block[2]))
    to_stand_off = -PUSH_STAND_OFF * direction - from_block[:2]
    if np.linalg.norm(to_stand_off) < PUSH_PLACED:
        return fetch_action(np.append(to_stand_off, -from_block[2]))
    sideways = to_stand_off if from_block[2] > PUSH_SAFE_HEIGHT else np.zeros(2)
    return fetch_action(np.append(sideways, PUSH_TRAVEL_HEIGHT - from_block[2]))


GRIPPER_OPEN, GRIPPER_CLOSED = 1.0, -1.0
"""Action of the gripper."""

PICK_HOVER = np.array([0.0, 0.0, 0.06])
"""Offset from the block from which the gripper descends, in metres."""
PICK_ALIGNED = 0.02
"""Horizontal distance below which the gripper may descend, in metres."""
PICK_BETWEEN_FINGERS = 0.015
"""Distance below which the block lies between the fingers, in metres."""
PICK_GRASPED_WIDTH = 0.0505
"""Width of the gripper when it holds the block, in metres."""


def pick_and_place(observation: dict[str, np.ndarray]) -> np.ndarray:
    """Return the action (4,) that takes the block and carries it to the goal."""
    state = observation["observation"]
    block, to_block, width = state[3:6], state[6:9], state[9:11].sum()
    if np.linalg.norm(to_block) > PICK_BETWEEN_FINGERS:
        aligned = np.linalg.norm(to_block[:2]) < PICK_ALIGNED
        return fetch_action(to_block if aligned else to_block + PICK_HOVER, GRIPPER_OPEN)
    if width > PICK_GRASPED_WIDTH:
        return fetch_action(to_block, GRIPPER_CLOSED)
    return fetch_action(observation["desired_goal"] - block, GRIPPER_CLOSED)


Cell = tuple[int, int]

MAZE_STIFFNESS, MAZE_DAMPING = 10.0, 1.0
"""Force per metre of distance from the next cell, and per metre per second of speed."""


class PointMaze:
    """Moves the ball from cell to cell along the shortest path, and within the last cell to the goal."""

    def __init__(self, env: Any) -> None:
        self.maze = env.unwrapped.maze

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the force on the ball (2,)."""
        goal = observation["desired_goal"]
        position, speed = np.split(observation["observation"], 2)
        here, there = self._cell(position), self._cell(goal)
        target = goal if here == there else self.maze.cell_rowcol_to_xy(np.array(self._next_cell(here, there)))
        return np.clip(MAZE_STIFFNESS * (target - position) - MAZE_DAMPING * speed, -1, 1).astype(np.float32)

    def _cell(self, position: np.ndarray) -> Cell:
        row, column = self.maze.cell_xy_to_rowcol(position)
        return int(row), int(column)

    def _next_cell(self, here: Cell, goal: Cell) -> Cell:
        """Return the next cell on the shortest path to the goal (breadth-first search from there)."""
        steps = {goal: goal}
        queue = deque([goal])
        while here not in steps:
            cell = queue.popleft()
            row, column = cell
            for neighbour in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if neighbour not in steps and self.maze.maze_map[neighbour[0]][neighbour[1]] != 1:
                    steps[neighbour] = cell
                    queue.append(neighbour)
        return steps[here]


SCRIPTED_CONTROLLERS = {
    "FetchReach": reach,
    "FetchPush": push,
    "FetchPickAndPlace": pick_and_place,
    "PointMaze_UMaze": PointMaze,
    "PointMaze_Medium": PointMaze,
    "PointMaze_Large": PointMaze,
}
"""The controllers by the environment's id without its version."""
