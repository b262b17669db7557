"""Captions of video frames: they fit the width, and show the outcome and the distance to the goal."""

import numpy as np
import pytest

from rlher.evaluation import captions
from rlher.evaluation.metrics import Episode
from tests.support.video import text_pixels


def caption(width: int, over: bool = False, **outcome: bool) -> np.ndarray:
    """Return the caption under an image of this width, (height, width, 3)."""
    episode = Episode(0, length=17, **outcome)
    image = np.full((30, width, 3), 77, dtype=np.uint8)
    captioned = captions.add_caption(image, 3, episode, over, "distance 0.034")
    assert (captioned[:30] == 77).all(), "the image is unchanged"
    assert captioned.shape == (30 + captions.HEIGHT, width, 3)
    return captioned[30:]


@pytest.mark.parametrize("width", [150, 200, 480])
def test_a_caption_fits_the_width(width: int) -> None:
    strip = caption(width)
    upper, lower = text_pixels(strip[: captions.HEIGHT // 2]), text_pixels(strip[captions.HEIGHT // 2 :])
    assert upper.sum() > 20
    assert lower.sum() > 20
    assert not text_pixels(strip[:, :3]).any(), "the margin is kept"
    assert not text_pixels(strip[:, -3:]).any()


def test_the_outcome_has_a_colour_and_a_text() -> None:
    strips = {
        "success": caption(300, over=True, success=True),
        "crashed": caption(300, over=True, crashed=True),
        "reached, then left": caption(300, over=True, reached=True),
        "missed": caption(300, over=True),
    }
    for outcome, strip in strips.items():
        assert tuple(strip[0, 0]) == captions.OUTCOME_COLORS[outcome]
    running = {
        "success": caption(300, success=True, reached=True),
        "crashed": caption(300, crashed=True),
        "reached": caption(300, reached=True),
        "": caption(300),
    }
    for outcome, strip in running.items():
        assert tuple(strip[0, 0]) == captions.OUTCOME_COLORS.get(outcome, captions.BACKGROUND)
    texts = [*strips.values(), running["success"], running[""]]
    assert len({text_pixels(strip).tobytes() for strip in texts}) == 6


def test_the_distance_to_the_goal_is_euclidean() -> None:
    goals = {"achieved_goal": np.zeros(3), "desired_goal": np.array([0.3, 0.0, 0.4])}
    assert captions.distance_text(goals) == "distance 0.500"
