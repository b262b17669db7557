"""A controller for PointMaze: the shortest path through the maze's cells, and a PD controller along it."""

from collections import deque
from typing import Any

import numpy as np

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
