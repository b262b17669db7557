"""Videos of episodes: rendered while they are played, then written side by side to an MP4 or GIF file."""

import errno
import re
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
from PIL import Image

from rlher.config.environment import EnvConfig
from rlher.core.errors import UserError, as_run_error, first_line
from rlher.core.writing import output_file
from rlher.envs.simulators import choose_mujoco_renderer
from rlher.evaluation.captions import add_caption, distance_text
from rlher.evaluation.metrics import Episode
from rlher.evaluation.rollout import Observation

TILE_WIDTH, MAX_WIDTH = 480, 1920
"""Default width of an episode's picture, and largest default width of a page, in pixels."""
AUTO_COLUMNS, AUTO_ROWS = 3, 2
"""Largest grid that is chosen automatically."""
MAX_SIDE = 20
"""Most columns, and rows, that a user may ask for."""
BACKGROUND, GAP = 24, 4
LAST_FRAME_SECONDS = 1.5
"""Seconds for which the last frame of a page stays, so that the outcomes can be read."""

ENCODERS = {
    ".mp4": "-vcodec libx264 -pix_fmt yuv420p -crf 20",
    # One palette for all frames; only the part of a frame that changes is stored.
    ".gif": "-filter_complex split[a][b];[a]palettegen[p];[b][p]paletteuse=dither=none:diff_mode=rectangle",
}
"""ffmpeg's options by the suffix of the file."""

Grid = tuple[int, int]
"""Columns and rows."""


def parse_grid(text: str) -> Grid | None:
    """Return the grid of ``"3x2"`` (columns first), None for ``"auto"``.

    :raises UserError: it is neither.
    """
    if text == "auto":
        return None
    match = re.fullmatch(r"([1-9]\d?)x([1-9]\d?)", text)
    if not match or max(map(int, match.groups())) > MAX_SIDE:
        raise UserError(f"grid={text} is not a grid; use auto or columns x rows such as 3x2, each at most {MAX_SIDE}.")
    return int(match[1]), int(match[2])


class VideoRecorder:
    """An ``on_step`` callback of :func:`rlher.evaluation.rollout.play_episodes` that renders each step.

    Made by :func:`record_video`.

    :param width: width of the picture of an episode, in pixels.
    """

    def __init__(self, env: gym.Env, width: int) -> None:
        self.pictures: list[list[bytes]] = []
        """The pictures of each episode, compressed, so that long episodes do not fill the memory."""
        self.shape = (0, 0, 3)
        """Height, width and channels of a picture."""
        self._env = env
        self._width = width

    def __call__(self, episode: Episode, observation: Observation, is_over: bool) -> None:
        """Render a picture. The picture after a reset begins a new episode.

        :raises UserError: there is no renderer.
        :raises RunError: the environment's renderer failed.
        """
        if episode.length == 0:
            self.pictures.append([])
        with as_run_error("rendering"):
            picture = self._render(episode, observation, is_over)
        self.shape = picture.shape
        self.pictures[-1].append(zlib.compress(picture.tobytes(), 1))

    def _render(self, episode: Episode, observation: Observation, is_over: bool) -> np.ndarray:
        """Return a picture of the environment with its caption."""
        if "rgb_array" not in (self._env.metadata.get("render_modes") or ()):
            raise UserError("the environment has no render_mode 'rgb_array'.")
        choose_mujoco_renderer()
        image = Image.fromarray(np.asarray(self._env.render(), dtype=np.uint8)[..., :3])
        size = self._width, max(round(image.height * self._width / image.width), 1)
        picture = np.asarray(image.resize(size, Image.Resampling.LANCZOS))
        return add_caption(picture, len(self.pictures), episode, is_over, distance_text(observation))


@contextmanager
def record_video(
    path: Path,
    env: gym.Env,
    config: EnvConfig,
    n_episodes: int,
    grid: Grid | None = None,
    width: int | None = None,
) -> Iterator[VideoRecorder]:
    """Record episodes that are played in the block.

    :param path: file to write, .mp4 or .gif.
    :param env: environment with the render mode ``"rgb_array"``.
    :param grid: columns and rows of a page; None for up to three columns and two rows. Further episodes follow on
        further pages.
    :param width: width of the video in pixels. If None, :data:`TILE_WIDTH` for each column, at most
        :data:`MAX_WIDTH`.
    :raises UserError: the file cannot be written.
    """
    columns, rows = grid or (min(n_episodes, AUTO_COLUMNS), min(ceil(n_episodes / AUTO_COLUMNS), AUTO_ROWS))
    gaps = GAP * (columns - 1)
    width = width or min(TILE_WIDTH * columns + gaps, MAX_WIDTH)
    recorder = VideoRecorder(env, max((width - gaps) // columns, 1))
    yield recorder
    fps = (env.metadata.get("render_fps") or 30) / config.action_repeat  # a picture for each action
    _write_pages(path, recorder, (columns, rows), fps)


def _write_pages(path: Path, recorder: VideoRecorder, grid: Grid, fps: float) -> None:
    """Write the recorded episodes side by side, page by page."""
    columns, rows = grid
    tile_height, tile_width, _ = recorder.shape
    height = rows * (tile_height + GAP) - GAP
    width = columns * (tile_width + GAP) - GAP
    height += height % 2  # H.264 takes even numbers only
    width += width % 2
    with open_video(path, (width, height), fps) as append:
        for first in range(0, len(recorder.pictures), columns * rows):
            page = recorder.pictures[first : first + columns * rows]
            frame = np.full((height, width, 3), BACKGROUND, dtype=np.uint8)
            for step in range(max(map(len, page)) + round(LAST_FRAME_SECONDS * fps)):
                for index, pictures in enumerate(page):
                    if step < len(pictures):  # an episode that is over keeps its last picture
                        picture = np.frombuffer(zlib.decompress(pictures[step]), np.uint8).reshape(recorder.shape)
                        row, column = divmod(index, columns)
                        top = row * (tile_height + GAP)
                        left = column * (tile_width + GAP)
                        frame[top : top + tile_height, left : left + tile_width] = picture
                append(frame)


def require_video_suffix(path: Path) -> None:
    """Raise UserError if a file name ends neither in .mp4 nor in .gif."""
    if path.suffix.lower() not in ENCODERS:
        raise UserError(f"video={path} is neither an MP4 nor a GIF file; use a name that ends in .mp4 or .gif.")


@contextmanager
def open_video(path: Path, size: tuple[int, int], fps: float) -> Iterator[Callable[[np.ndarray], Any]]:
    """Yield a function that appends a frame (height, width, 3), uint8; the file appears at the end of the block.

    :param path: file to write, .mp4 or .gif.
    :param size: width and height of every frame in pixels; even numbers for MP4.
    :param fps: frames per second.
    :raises UserError: the file cannot be written.
    """
    try:
        ffmpeg_file = imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:  # there is none
        raise UserError(f"cannot write {path}: {first_line(error)}.") from error
    width, height = size
    frames = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i -"
    options = f"-y -v fatal {frames} {ENCODERS[path.suffix.lower()]}"
    with output_file(path) as temporary:
        command = [ffmpeg_file, *options.split(), str(temporary)]
        # In a session of its own, so that Ctrl-C does not end it.
        with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as ffmpeg:
            yield ffmpeg.stdin.write  # type: ignore[union-attr, misc]
        if ffmpeg.returncode:
            raise OSError(errno.EIO, "ffmpeg failed, perhaps because the disk is full")
