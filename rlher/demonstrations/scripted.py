"""Scripted controllers for FetchReach, FetchPush, FetchPickAndPlace, FetchSlide and PointMaze.

The controllers of Fetch have no memory, except that of FetchSlide: each phase follows from the observation.
"""

from collections import deque
from copy import copy
from typing import Any

import numpy as np

GAIN = 10.0
"""Action of Fetch per metre of distance. An action of 1 moves the hand by up to 5 cm."""


def fetch_action(movement: np.ndarray, gripper: float = 0.0) -> np.ndarray:
    """Return the action (4,) that moves the hand.

    :param movement: (3,) distance to move along x, y and z, in metres.
    :param gripper: 1 opens it, -1 closes it, where the environment has one that moves.
    """
    return np.append(np.clip(GAIN * movement, -1, 1), gripper).astype(np.float32)


def reach(observation: dict[str, np.ndarray]) -> np.ndarray:
    """Return the action (4,) that moves the hand straight to the goal."""
    return fetch_action(observation["desired_goal"] - observation["achieved_goal"])


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


def push(observation: dict[str, np.ndarray]) -> np.ndarray:
    """Return the action (4,) that pushes the block along the line to the goal."""
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


OPEN, CLOSE = 1.0, -1.0

HOVER = np.array([0.0, 0.0, 0.06])
"""Offset from the block from which the gripper descends, in metres."""
ALIGNED = 0.02
"""Horizontal distance below which the gripper may descend, in metres."""
AROUND = 0.015
"""Distance below which the block lies between the fingers, in metres."""
GRASPED = 0.0505
"""Width of the gripper when it holds the block, in metres."""


def pick_and_place(observation: dict[str, np.ndarray]) -> np.ndarray:
    """Return the action (4,) that takes the block and carries it to the goal."""
    state = observation["observation"]
    block, to_block, width = state[3:6], state[6:9], state[9:11].sum()
    if np.linalg.norm(to_block) > AROUND:
        aligned = np.linalg.norm(to_block[:2]) < ALIGNED
        return fetch_action(to_block if aligned else to_block + HOVER, OPEN)
    if width > GRASPED:
        return fetch_action(to_block, CLOSE)
    return fetch_action(observation["desired_goal"] - block, CLOSE)


CORNER = np.array([0.0135, 0.0157])
"""Half the length and width of the two closed fingers, in metres; the puck is hit with a corner."""
RUN_UP = np.array([0.043, 0.06])
"""Distances of the puck's centre from the corner before a strike, and from the hand on its way around, in metres."""
READY, STILL = 0.0015, 0.0004
"""Distance from the stand-off point in metres, and metres per step, below which the hand strikes.

A millimetre to the side turns the puck's path by five degrees.
"""
STRENGTHS = 1 + 0.03 * np.array([0, -1, 1, -2, 2, -3, 3, -4, 4, 5, 6, 7, 8])
"""Factors of the calibrated strength in the order in which they are rehearsed."""
STRIKE_STEPS, SLIDE_STEPS = 2, 40
"""Steps of a strike, and of a strike and of the puck's sliding until it stops."""


class Slide:
    """Goes behind the puck, and strikes it once so that it stops at the goal.

    The constants of aim and strength are fitted to 500 strikes in FetchSlide-v4 with random strengths: to the distance
    that the puck slid, and to its direction. With them alone, seven of ten strikes reach the goal, because the puck
    wobbles. So each strike is rehearsed on a copy of the simulation, with other strengths until one reaches the goal.
    """

    def __init__(self, env: Any) -> None:
        self.env = env.unwrapped
        self._second_step: np.ndarray | None = None

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action (4,)."""
        state, goal = observation["observation"], observation["desired_goal"]
        from_puck, to_goal = (state[:3] - state[3:6])[:2], (goal - state[3:6])[:2]
        if (action := self._second_step) is not None:
            self._second_step = None
            return action
        if np.linalg.norm(state[14:16] + state[20:22]) > 5 * STILL:
            return np.zeros(4, np.float32)  # the puck slides
        angle, behind = np.arctan2(to_goal[1], to_goal[0]), np.arctan2(-from_puck[1], -from_puck[0])
        turn = (angle - behind + np.pi) % (2 * np.pi) - np.pi
        if abs(turn) > 0.5:
            error = -RUN_UP[1] * _direction(behind + np.clip(turn, -0.7, 0.7)) - from_puck
        else:
            aim = angle - 0.02 * np.sin(2 * angle) - 0.09 * np.sin(4 * angle)
            corner = CORNER * (1, np.clip(angle / 0.06, -1, 1))
            error = -corner - RUN_UP[0] * _direction(aim) - from_puck
            if np.linalg.norm(error) < READY and np.linalg.norm(state[20:22]) < STILL:
                distance = np.linalg.norm(to_goal)
                strength = 0.12 + np.sqrt(distance) * (0.62 - 0.149 * angle**2) + 0.423 * distance
                self._second_step = self._best_strike(strength * np.append(_direction(angle), (0, 0)), goal)
                return self._second_step
        return fetch_action(2 * np.append(error, 0))

    def _best_strike(self, strike: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """Rehearse strengths until the puck stops near the goal; return the best action (4,)."""
        actions: dict[float, np.ndarray] = {}
        for factor in STRENGTHS:
            action = np.clip(factor * strike, -1, 1).astype(np.float32)
            actions[self._rehearse(action, goal)] = action
            if min(actions) < 0.6 * self.env.distance_threshold:
                break
        return actions[min(actions)]

    def _rehearse(self, action: np.ndarray, goal: np.ndarray) -> float:
        """Return how far from the goal the puck stops after a strike, in metres; the simulation stays as it is."""
        data = self.env.data
        self.env.data = copy(data)
        for step in range(SLIDE_STEPS):
            observation = self.env.step(action if step < STRIKE_STEPS else np.zeros(4, np.float32))[0]
        self.env.data = data
        return float(np.linalg.norm(observation["achieved_goal"] - goal))


def _direction(angle: float) -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle)])


Cell = tuple[int, int]

STIFFNESS, DAMPING = 10.0, 1.0
"""Force per metre of distance from the next cell, and per metre per second of speed."""


class PointMaze:
    """Moves the ball from cell to cell along the shortest path, and within the last cell to the goal."""

    def __init__(self, env: Any) -> None:
        self.maze = env.unwrapped.maze
        self._steps: dict[Cell, dict[Cell, Cell]] = {}  # by goal cell: the next cell on the way from each cell

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the force on the ball (2,)."""
        goal, (position, speed) = observation["desired_goal"], np.split(observation["observation"], 2)
        here, there = self._cell(position), self._cell(goal)
        if there not in self._steps:
            self._steps[there] = self._steps_to(there)
        target = goal if here == there else self.maze.cell_rowcol_to_xy(np.array(self._steps[there][here]))
        return np.clip(STIFFNESS * (target - position) - DAMPING * speed, -1, 1).astype(np.float32)

    def _cell(self, position: np.ndarray) -> Cell:
        row, column = self.maze.cell_xy_to_rowcol(position)
        return int(row), int(column)

    def _steps_to(self, goal: Cell) -> dict[Cell, Cell]:
        """Return the next cell on the shortest path to the goal, for every cell that has one (breadth-first search)."""
        steps, queue = {goal: goal}, deque([goal])
        while queue:
            row, column = cell = queue.popleft()
            for neighbour in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if neighbour not in steps and self.maze.maze_map[neighbour[0]][neighbour[1]] != 1:
                    steps[neighbour] = cell
                    queue.append(neighbour)
        return steps


SCRIPTED_CONTROLLERS = {
    "FetchReach": reach,
    "FetchPush": push,
    "FetchPickAndPlace": pick_and_place,
    "FetchSlide": Slide,
    "PointMaze_UMaze": PointMaze,
    "PointMaze_Medium": PointMaze,
    "PointMaze_Large": PointMaze,
}
"""The controllers by the environment's id without its version."""
