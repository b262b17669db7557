"""`rlher enjoy`: watch a run's agent, in a window where there is a display, else as a video."""

import json
import sys
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path

from rlher.config.saved_model import EnjoyConfig
from rlher.core.console import escape_control
from rlher.envs.make import render_modes
from rlher.envs.rendering import before_building, has_display
from rlher.evaluation.rollout import play_episodes
from rlher.evaluation.source import find_source
from rlher.evaluation.video import tiling
from rlher.evaluation.video.recorder import VideoOptions, record_video
from rlher.evaluation.video.writer import require_video_suffix

EPISODES = 6


def enjoy(config: EnjoyConfig) -> int:
    """Play episodes, show or film them, and print each one's outcome.

    :return: exit code: 0, or 1 where a video was asked for and could not be made.
    :raises UserError: no such run, no readable model, a grid that is none, or a video file name of an unknown kind.
    """
    if config.video:
        require_video_suffix(Path(config.video))
    layout = tiling.parse_grid(config.grid)
    source = find_source(config, ("best", "last"))
    window = config.video is None and layout is None and has_display() and "human" in render_modes(source.env)
    if not window:
        before_building()
    agent = source.load("human" if window else "rgb_array")
    print(escape_control(source.name), file=sys.stderr)
    episodes = config.episodes or (layout.cells if layout and layout.cells > 1 else EPISODES)
    path = Path(config.video) if config.video else source.folder / "enjoy.mp4"
    look = VideoOptions(layout, config.width, config.captions, config.fps)
    outcomes = []
    filmed = record_video(path, agent.env, agent.config, episodes, look) if not window else nullcontext()
    with closing(agent.env), filmed as film:
        for episode in play_episodes(agent.env, agent.policy, episodes, config.seed, film):
            outcomes.append(episode)
            if not config.json:
                print(f"episode {len(outcomes)}: {episode}", flush=True)
    if config.json:
        print(json.dumps({**source.keys, "episodes": [asdict(each) for each in outcomes]}))
    if film and not film.failed:
        print(f"video: {path}", file=sys.stderr)
        return 0
    return 1 if config.video else 0
