"""Captions under a picture in a video: episode, step, distance to the goal, and outcome."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rlher.evaluation.metrics import Episode
from rlher.evaluation.rollout import Observation

FONT_SIZE, LINE_HEIGHT, MARGIN = 13, 17, 6
HEIGHT = 2 * LINE_HEIGHT + MARGIN
BACKGROUND, FOREGROUND = (38, 42, 46), (236, 236, 236)
OUTCOME_COLORS = {
    "success": (30, 132, 73),
    "crashed": (176, 58, 46),
    "reached, then left": (154, 102, 18),
    "missed": (98, 104, 110),
}


def add_caption(image: np.ndarray, number: int, episode: Episode, is_over: bool, distance: str) -> np.ndarray:
    """Return an image with a caption of two lines below; its colour shows the outcome, or that the goal is reached.

    :param image: (height, width, 3), uint8.
    :param number: number of the episode, from 1.
    :param distance: distance to the goal as text, see :func:`distance_text`.
    :return: (height + :data:`HEIGHT`, width, 3), uint8.
    """
    color, status = _color_and_status(episode, is_over)
    strip = Image.new("RGB", (image.shape[1], HEIGHT), color)
    pen = ImageDraw.Draw(strip)
    pen.font = ImageFont.load_default(FONT_SIZE)
    top = MARGIN // 2
    pen.text((MARGIN, top), status, FOREGROUND)
    pen.text((MARGIN, top + LINE_HEIGHT), distance, FOREGROUND)
    name = f"episode {number}"
    if pen.textlength(status) + pen.textlength(name) + 4 * MARGIN <= strip.width:  # it fits beside the status
        pen.text((strip.width - MARGIN - pen.textlength(name), top), name, FOREGROUND)
    return np.concatenate([image, np.asarray(strip)])


def _color_and_status(episode: Episode, is_over: bool) -> tuple[tuple[int, int, int], str]:
    """Return the colour of a caption, and a text about the episode so far."""
    if is_over:
        length = "1 step" if episode.length == 1 else f"{episode.length} steps"
        return OUTCOME_COLORS[episode.outcome], f"{episode.outcome}, {length}"
    if episode.crashed:
        return OUTCOME_COLORS["crashed"], f"crashed, step {episode.length}"
    if episode.success:
        return OUTCOME_COLORS["success"], f"at goal, step {episode.length}"
    return BACKGROUND, f"step {episode.length}"


def distance_text(observation: Observation) -> str:
    """Return the Euclidean distance of an observation's achieved and desired goal, as text."""
    difference = np.subtract(observation["achieved_goal"], observation["desired_goal"], dtype=np.float64)
    return f"distance {np.linalg.norm(difference):.3f}"
