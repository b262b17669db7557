"""Videos of episodes: rendered while they are played, captioned, side by side, written to an MP4 or GIF file."""

import errno
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
from PIL import Image

from rlher.config.environment import EnvConfig
from rlher.core.console import warn
from rlher.core.errors import UserError, describe_error, first_line
from rlher.core.files import output_file
from rlher.envs.rendering import NoRenderer, choose_mujoco_renderer
from rlher.evaluation.captions import add_caption, goal_text
from rlher.evaluation.rollout import Episode, Observation

TILE_WIDTH, MAX_WIDTH = 480, 1920
"""Width of the picture of an episode, and of a page of them unless the user gives another, in pixels."""
AUTO_COLUMNS, AUTO_ROWS = 3, 2
"""Largest grid that is chosen without the user."""
MAX_SIDE = 20
"""Most columns, and rows, that a user may ask for."""
BACKGROUND, GAP = 24, 4
LAST_FRAME_SECONDS = 1.5
"""Seconds for which the last frame of a page stays, so that the outcomes can be read."""

FORMATS: dict[str, dict[str, Any]] = {
    ".mp4": dict(codec="libx264", quality=6),
    ".gif": dict(
        codec="gif",
        pix_fmt_out="pal8",
        quality=None,
        output_params=[  # one palette for all frames; only the part of a frame that changes is stored
            "-filter_complex",
            "split[a][b];[a]palettegen[p];[b][p]paletteuse=dither=none:diff_mode=rectangle",
        ],
    ),
}

Grid = tuple[int, int]
"""Columns and rows."""


def parse_grid(text: str) -> Grid | None:
    """Return the grid of ``"3x2"`` (columns first), None for ``"auto"``.

    :raises UserError: it is neither.
    """
    if text == "auto":
        return None
    found = re.fullmatch(r"([1-9]\d?)x([1-9]\d?)", text)
    if not found or max(map(int, found.groups())) > MAX_SIDE:
        raise UserError(f"grid={text} is not a grid; use auto or columns x rows such as 3x2, each at most {MAX_SIDE}.")
    return int(found[1]), int(found[2])


class VideoRecorder:
    """An ``on_step`` callback of :func:`rlher.evaluation.rollout.play_episodes` that writes a video.

    If rendering fails it warns once and records nothing more. Made by :func:`record_video`.

    :param append: writes a frame (height, width, 3), uint8.
    """

    def __init__(
        self, env: gym.Env, config: EnvConfig, grid: Grid, width: int | None, captions: bool, append: Callable
    ) -> None:
        self.failed = False
        self._env, self._config, self._grid, self._captions, self._append = env, config, grid, captions, append
        gaps = GAP * (grid[0] - 1)
        total = width or min(TILE_WIDTH * grid[0] + gaps, MAX_WIDTH)
        self._width = max((total - gaps) // grid[0], 1)
        self._number = 1
        self._page: list[list[bytes]] = [[]]
        """The tiles of each episode, compressed, so that long episodes do not fill the memory."""
        self._shape: tuple[int, ...] = ()

    def __call__(self, episode: Episode, observation: Observation, is_over: bool) -> None:
        """Render a frame; at the end of the last episode of a page, write the page."""
        if self.failed:
            return
        try:
            tile = self._tile(episode, observation, is_over)
        except Exception as error:  # every renderer fails with exceptions of its own
            self.failed = True
            reason = str(error) if isinstance(error, NoRenderer) else f"rendering failed with {describe_error(error)}."
            warn(f"no video: {reason}")
            return
        self._shape = tile.shape
        self._page[-1].append(zlib.compress(tile.tobytes(), 1))
        if is_over:
            self._number += 1
            if len(self._page) == self._grid[0] * self._grid[1]:
                self.write_page()
            self._page.append([])

    def write_page(self) -> None:
        """Write the episodes since the last page side by side; an episode that is over keeps its last tile."""
        episodes = [tiles for tiles in self._page if tiles]
        self._page = []
        if self.failed or not episodes:
            return
        (height, width, _), (columns, rows) = self._shape, self._grid
        down, right = height + GAP, width + GAP
        sides = (side + side % 2 for side in (rows * down - GAP, columns * right - GAP))  # H.264: even sides
        frame = np.full((*sides, 3), BACKGROUND, dtype=np.uint8)
        for step in range(max(map(len, episodes)) + round(LAST_FRAME_SECONDS * _fps(self._env))):
            for index, tiles in enumerate(episodes):
                if step < len(tiles):
                    row, column = divmod(index, columns)
                    tile = np.frombuffer(zlib.decompress(tiles[step]), dtype=np.uint8).reshape(self._shape)
                    frame[row * down :, column * right :][:height, :width] = tile
            self._append(frame)

    def _tile(self, episode: Episode, observation: Observation, is_over: bool) -> np.ndarray:
        """Return the rendered environment in the width of a tile, with its caption."""
        if "rgb_array" not in (self._env.metadata.get("render_modes") or ()):
            raise NoRenderer("the environment has no render_mode 'rgb_array'.")
        choose_mujoco_renderer()
        image = Image.fromarray(np.asarray(self._env.render(), dtype=np.uint8)[..., :3])
        size = self._width, max(round(image.height * self._width / image.width), 1)
        tile = np.asarray(image.resize(size, Image.Resampling.LANCZOS))
        if not self._captions:
            return tile
        return add_caption(tile, self._number, episode, is_over, goal_text(self._config, self._env, observation))


def _fps(env: gym.Env) -> float:
    return env.metadata.get("render_fps") or 30


@contextmanager
def record_video(
    path: Path,
    env: gym.Env,
    config: EnvConfig,
    episodes: int,
    grid: Grid | None = None,
    width: int | None = None,
    captions: bool = True,
) -> Iterator[VideoRecorder]:
    """Record episodes that are played in the block; there is no file if nothing could be rendered.

    :param path: file to write, .mp4 or .gif.
    :param env: environment with the render mode ``"rgb_array"``.
    :param grid: episodes side by side, further ones follow on the next page; None: three in a row, at most two rows.
    :param width: width of the video in pixels; None: :data:`TILE_WIDTH` for each column, at most :data:`MAX_WIDTH`.
    :param captions: whether episode, step, distance and outcome are written under each picture.
    :raises UserError: the file cannot be written.
    """
    grid = grid or (min(episodes, AUTO_COLUMNS), min(-(-episodes // AUTO_COLUMNS), AUTO_ROWS))
    opened: list[Callable[[np.ndarray], None]] = []
    with ExitStack() as stack:

        def append(frame: np.ndarray) -> None:
            if not opened:  # the size is known with the first frame
                video = open_video(path, frame.shape[1::-1], _fps(env))
                opened.append(stack.enter_context(video))
            opened[0](frame)

        recorder = VideoRecorder(env, config, grid, width, captions, append)
        yield recorder
        recorder.write_page()


def require_video_suffix(path: Path) -> None:
    """Raise UserError if a file name ends neither in .mp4 nor in .gif."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"video={path} is neither an MP4 nor a GIF file; use a name that ends in .mp4 or .gif.")


@contextmanager
def open_video(path: Path, size: tuple[int, int], fps: float) -> Iterator[Callable[[np.ndarray], None]]:
    """Yield a function that appends a frame (height, width, 3), uint8; the file appears at the end of the block.

    :param size: width and height of every frame in pixels; even numbers for MP4.
    :param fps: frames per second.
    :raises UserError: the file cannot be written.
    """
    require_video_suffix(path)
    options = dict(fps=fps, macro_block_size=1, ffmpeg_log_level="fatal", **FORMATS[path.suffix.lower()])
    count = 0

    def append(frame: np.ndarray) -> None:
        nonlocal count
        ffmpeg.send(np.ascontiguousarray(frame))
        count += 1

    try:
        with output_file(path) as temporary:
            with closing(imageio_ffmpeg.write_frames(str(temporary), size, **options)) as ffmpeg:
                ffmpeg.send(None)
                yield append
            _require_frames(temporary, count)
    except RuntimeError as error:  # there is no ffmpeg
        raise UserError(f"cannot write {path}: {first_line(error)}.") from error


def _require_frames(path: Path, count: int) -> None:
    """Raise OSError if a video is incomplete: imageio-ffmpeg ignores that ffmpeg failed, as it does on a full disk."""
    try:
        written = imageio_ffmpeg.count_frames_and_secs(str(path))[0] if count else 0
    except RuntimeError:  # it is no video
        written = 0
    if written < count:
        raise OSError(errno.EIO, f"ffmpeg wrote {written} of {count} frames, perhaps because the disk is full")
