"""Episodes on film: drawn, captioned, side by side, written as they are played."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.console import warn
from rlher.envs.fault_guard import describe_error
from rlher.envs.rendering import NoRenderer, before_drawing
from rlher.evaluation.rollout import Episode, Observation
from rlher.evaluation.video import captions, tiling
from rlher.evaluation.video.tiling import Grid, Reel
from rlher.evaluation.video.writer import Write, video

LINGER = 1.5
"""Seconds for which the last pictures stay, so that the outcomes can be read."""

NARROWEST = 200
"""Pixels of a captioned tile, so that the words have room."""


@dataclass(frozen=True)
class Look:
    """How a film is to look.

    :param layout: tiles side by side, further episodes follow on the next page; None: as they fit.
    :param width: of the video, in pixels; None: as drawn, within a screen.
    :param captions: write episode, step, goal and outcome under each picture.
    :param fps: frames a second; None: the environment's own.
    """

    layout: Grid | None = None
    width: int | None = None
    captions: bool = True
    fps: float | None = None


class Film:
    """Films what :func:`rlher.evaluation.rollout.play_episodes` tells it as its ``on_step``; made by :func:`filming`.

    Where drawing fails it says so once, on stderr, and films no more.

    :param open_video: called with the first frame's width and height; returns what writes frames.
    """

    def __init__(
        self,
        env: gym.Env,
        config: EnvConfig,
        episodes: int,
        look: Look,
        fps: float,
        open_video: Callable[[tuple[int, int]], Write],
    ) -> None:
        self.broken = False
        self._env, self._episodes, self._look, self._fps = env, episodes, look, fps
        self._goal = captions.goal_text(config, env) if look.captions else None
        self._open_video = open_video
        self._write: Any = None  # Write, once there is a frame
        self._page = [Reel()]
        self._number = 1
        self._layout, self._size = look.layout, (0, 0)

    def __call__(self, episode: Episode, observation: Observation, over: bool) -> None:
        """Take a picture; with the last one of a page, write the page."""
        if self.broken:
            return
        try:
            self._page[-1].append(self._tile(episode, observation, over))
        except Exception as error:  # every renderer fails with exceptions of its own
            self.broken = True
            why = str(error) if isinstance(error, NoRenderer) else f"drawing failed with {describe_error(error)}."
            warn(f"no video: {why}")
            return
        if over:
            self._number += 1
            if self._layout and len(self._page) == self._layout.cells:
                self.finish_page()
            self._page.append(Reel())

    def finish_page(self) -> None:
        """Write the episodes filmed since the last page, side by side."""
        reels = [reel for reel in self._page if len(reel)]
        self._page = []
        if self.broken or self._layout is None or not reels:
            return
        for frame in tiling.frames(reels, self._layout):
            self._write = self._write or self._open_video(frame.shape[1::-1])
            self._write(frame)
        for _ in range(round(LINGER * self._fps)):
            self._write(frame)

    def _tile(self, episode: Episode, observation: Observation, over: bool) -> np.ndarray:
        if "rgb_array" not in (self._env.metadata.get("render_modes") or ()):
            raise NoRenderer("there is nothing to see, the environment has no render_mode 'rgb_array'.")
        before_drawing()
        picture = np.asarray(self._env.render(), dtype=np.uint8)[..., :3]
        height, width, _ = picture.shape
        strip = captions.HEIGHT if self._goal else 0
        if self._layout is None:
            self._layout = tiling.best(self._episodes, width, height + strip)
        if self._size == (0, 0):
            scale = tiling.scale(self._layout, width, height + strip, self._look.width)
            self._size = max(int(width * scale), 1), max(int(height * scale), 1)
        picture = tiling.resized(picture, self._size)
        if self._goal is None:
            return picture
        if self._look.width is None:
            picture = tiling.widened(picture, NARROWEST)
        return captions.captioned(picture, self._number, episode, over, self._goal(observation))


@contextmanager
def filming(path: Path, env: gym.Env, config: EnvConfig, episodes: int, look: Look | None = None) -> Iterator[Film]:
    """Film episodes that are played in the block; the file is there when it ends, if anything could be drawn.

    :param path: file to write, .mp4 or .gif.
    :param env: environment with the render mode ``"rgb_array"``.
    :param config: of the environment.
    :param episodes: how many will be played.
    :raises UserError: the file cannot be written.
    """
    look = look or Look()
    fps = look.fps or env.metadata.get("render_fps") or 30
    with ExitStack() as stack:
        film = Film(env, config, episodes, look, fps, lambda size: stack.enter_context(video(path, size, fps)))
        yield film
        film.finish_page()
