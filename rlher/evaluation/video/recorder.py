"""Record episodes while they are played: rendered, captioned, side by side, written to a video file."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.console import warn
from rlher.core.errors import describe_error
from rlher.envs.rendering import NoRenderer, choose_mujoco_renderer
from rlher.evaluation.rollout import Episode, Observation
from rlher.evaluation.video import captions, tiling
from rlher.evaluation.video.tiling import EpisodeFrames, Grid
from rlher.evaluation.video.writer import AppendFrame, open_video

LAST_FRAME_SECONDS = 1.5
"""Seconds for which the last frame of a page stays, so that the outcomes can be read."""

MIN_CAPTION_WIDTH = 200
"""Minimum width of a tile with a caption, in pixels."""


@dataclass(frozen=True)
class VideoOptions:
    """Layout and captions of a video.

    :param grid: tiles side by side, further episodes follow on the next page; None: the best fit for a screen.
    :param width: width of the video in pixels; None: as rendered, within a screen.
    :param captions: whether episode, step, goal and outcome are written under each tile.
    :param fps: frames per second; None: the environment's ``render_fps``.
    """

    grid: Grid | None = None
    width: int | None = None
    captions: bool = True
    fps: float | None = None


OnFrame = Callable[[int, int], None]
"""Takes the number of a frame of a page, from 1, and the number of frames of the page."""


class VideoRecorder:
    """An ``on_step`` callback of :func:`rlher.evaluation.rollout.play_episodes` that writes a video.

    If rendering fails it warns once and records nothing more. Made by :func:`record_video`.

    :param stack: closes the video file, which is opened with the first frame.
    :param on_frame: see :func:`record_video`.
    """

    def __init__(
        self,
        path: Path,
        env: gym.Env,
        config: EnvConfig,
        episodes: int,
        options: VideoOptions,
        stack: ExitStack,
        on_frame: OnFrame | None,
    ) -> None:
        self.failed = False
        self._path, self._env, self._episodes, self._options, self._stack = path, env, episodes, options, stack
        self._on_frame = on_frame
        self._fps = options.fps or env.metadata.get("render_fps") or 30
        self._goal_text = captions.goal_text(config, env) if options.captions else None
        self._append: AppendFrame | None = None
        self._page = [EpisodeFrames()]
        self._number = 1
        self._grid, self._tile_size = options.grid, (0, 0)

    def __call__(self, episode: Episode, observation: Observation, is_over: bool) -> None:
        """Render a frame; at the end of the last episode of a page, write the page."""
        if self.failed:
            return
        try:
            self._page[-1].append(self._tile(episode, observation, is_over))
        except Exception as error:  # every renderer fails with exceptions of its own
            self.failed = True
            reason = str(error) if isinstance(error, NoRenderer) else f"rendering failed with {describe_error(error)}."
            warn(f"no video: {reason}")
            return
        if is_over:
            self._number += 1
            if self._grid and len(self._page) == self._grid.cells:
                self.write_page()
            self._page.append(EpisodeFrames())

    def write_page(self) -> None:
        """Write the episodes recorded since the last page, side by side."""
        episodes = [frames for frames in self._page if len(frames)]
        self._page = []
        if self.failed or self._grid is None or not episodes:
            return
        still = round(LAST_FRAME_SECONDS * self._fps)
        total = max(map(len, episodes)) + still
        for number, frame in enumerate(tiling.tiled(episodes, self._grid, still), start=1):
            self._write(frame)
            if self._on_frame:
                self._on_frame(number, total)

    def _write(self, frame: np.ndarray) -> None:
        if self._append is None:
            self._append = self._stack.enter_context(open_video(self._path, frame.shape[1::-1], self._fps))
        self._append(frame)

    def _tile(self, episode: Episode, observation: Observation, is_over: bool) -> np.ndarray:
        """Return the rendered environment in the size of a tile, with its caption."""
        image = self._render()
        height, width, _ = image.shape
        caption_height = captions.HEIGHT if self._goal_text else 0
        if self._grid is None:
            self._grid = tiling.best_grid(self._episodes, width, height + caption_height)
        if self._tile_size == (0, 0):
            scale = tiling.scale(self._grid, width, height + caption_height, self._options.width)
            self._tile_size = max(int(width * scale), 1), max(int(height * scale), 1)
        image = tiling.resize(image, self._tile_size)
        if self._goal_text is None:
            return image
        if self._options.width is None:
            image = tiling.pad_width(image, MIN_CAPTION_WIDTH)
        return captions.add_caption(image, self._number, episode, is_over, self._goal_text(observation))

    def _render(self) -> np.ndarray:
        if "rgb_array" not in (self._env.metadata.get("render_modes") or ()):
            raise NoRenderer("the environment has no render_mode 'rgb_array'.")
        choose_mujoco_renderer()
        return np.asarray(self._env.render(), dtype=np.uint8)[..., :3]


@contextmanager
def record_video(
    path: Path,
    env: gym.Env,
    config: EnvConfig,
    episodes: int,
    options: VideoOptions | None = None,
    on_frame: OnFrame | None = None,
) -> Iterator[VideoRecorder]:
    """Record episodes that are played in the block; there is no file if nothing could be rendered.

    :param path: file to write, .mp4 or .gif.
    :param env: environment with the render mode ``"rgb_array"``.
    :param on_frame: called for each frame that was written.
    :raises UserError: the file cannot be written.
    """
    with ExitStack() as stack:
        recorder = VideoRecorder(path, env, config, episodes, options or VideoOptions(), stack, on_frame)
        yield recorder
        recorder.write_page()
