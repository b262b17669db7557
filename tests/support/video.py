"""Frames of recorded videos, and the pixels of their captions."""

from pathlib import Path

import imageio.v2 as imageio
import numpy as np

from rlher.evaluation import captions


def read_frames(path: Path) -> list[np.ndarray]:
    """Return the frames of a video, each (height, width, 3)."""
    return [np.asarray(frame)[..., :3] for frame in imageio.get_reader(path)]


def text_pixels(image: np.ndarray) -> np.ndarray:
    """Return which pixels have the colour of text, (height, width)."""
    return (np.abs(image.astype(int) - np.array(captions.FOREGROUND)) < 40).all(axis=-1)


def is_blank(frame: np.ndarray) -> bool:
    return bool(frame.std() <= 10)
