"""Watch a run's agent, a controller or demonstrations, in a window or as a video."""

from contextlib import closing, nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from rlher.config.command_configs import EnjoyConfig
from rlher.core.console import print_note
from rlher.core.machine import has_display
from rlher.envs.make import make_env
from rlher.envs.registration import render_modes
from rlher.evaluation.rollout import play_episodes, track_episodes
from rlher.evaluation.video import parse_grid, record_video, require_video_suffix
from rlher.playing.episode_sources import find_episode_source

DEFAULT_EPISODES = 6


def watch(config: EnjoyConfig) -> tuple[dict[str, Any], Path | None]:
    """Play episodes, show or record them, and print the outcome of each as soon as it has ended, unless ``json``.

    :return: what ``rlher enjoy --json`` prints; and the video, None if there was a window.
    :raises UserError: the run, model, controller, environment, dataset or renderer does not exist, or a key is invalid.
    :raises RunError: the environment failed, or its renderer.
    """
    if config.video:
        require_video_suffix(Path(config.video))
    grid = parse_grid(config.grid)
    source = find_episode_source(config)
    env_config = source.env_config
    path = Path(config.video or source.folder / "enjoy.mp4")
    window = config.video is None and grid is None and has_display() and "human" in render_modes(env_config)
    default = grid[0] * grid[1] if grid and grid != (1, 1) else DEFAULT_EPISODES
    seeds = list(islice(source.seeds, config.episodes or default))
    outcomes: list[dict[str, Any]] = []
    with closing(make_env(env_config, "human" if window else "rgb_array")) as env:
        policy = source.make_policy(env)
        print_note(source.name)
        recording = record_video(path.absolute(), env, env_config, len(seeds), grid, config.width)
        with nullcontext() if window else recording as recorder:
            for episode in track_episodes(play_episodes(env, policy, seeds, recorder), len(seeds), enabled=not window):
                outcomes.append(asdict(episode))
                if not config.json:
                    print(f"episode {len(outcomes)}: {episode}", flush=True)
    return {**source.identity, "episodes": outcomes}, None if window else path
