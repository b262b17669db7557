"""A plain picture of goals, for videos of environments that cannot be rendered."""

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

SIDE, RADIUS = 360, 7
"""Side of the picture, and radius of a point in it, in pixels."""
PATH_COLOR, POINT_COLOR, GOAL_COLOR = (150, 150, 150), (0, 114, 178), (213, 94, 0)


class GoalPicture:
    """Draws the path of the achieved goal, as a line that ends in a point, and the desired goal as a cross.

    Goals with three coordinates are drawn by their first two.

    :param space: of desired goals. The picture shows all of it if it is bounded, and every point drawn so far.
    """

    def __init__(self, space: gym.Space) -> None:
        is_bounded = isinstance(space, gym.spaces.Box) and space.is_bounded()
        self._path: list[NDArray] = []
        self._low: NDArray = space.low[:2] if is_bounded else np.full(2, np.inf)  # type: ignore[attr-defined]
        self._high: NDArray = space.high[:2] if is_bounded else np.full(2, -np.inf)  # type: ignore[attr-defined]

    def draw(self, achieved: NDArray, desired: NDArray, is_reset: bool) -> Image.Image:
        """Return the picture after a step.

        :param achieved: (2,) or (3,).
        :param desired: as ``achieved``.
        :param is_reset: whether an episode begins.
        """
        point, goal = np.array(achieved[:2], np.float64), np.array(desired[:2], np.float64)
        self._path = [point] if is_reset else [*self._path, point]
        self._low = np.min([self._low, point, goal], axis=0)
        self._high = np.max([self._high, point, goal], axis=0)
        scale = 0.8 * SIDE / max(float((self._high - self._low).max()), 1e-9)
        points = (np.array([*self._path, goal]) - (self._low + self._high) / 2) * [scale, -scale] + SIDE / 2
        image = Image.new("RGB", (SIDE, SIDE), "white")
        pen = ImageDraw.Draw(image)
        (x, y), (u, v) = points[-2:]
        pen.line([*map(tuple, points[:-1])], PATH_COLOR, 3)
        pen.ellipse((x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS), POINT_COLOR)
        for sign in (-1, 1):
            pen.line((u - RADIUS, v - sign * RADIUS, u + RADIUS, v + sign * RADIUS), GOAL_COLOR, 3)
        return image
