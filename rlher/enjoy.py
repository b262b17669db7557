"""`rlher enjoy`: watch a run's agent, in a window where there is a display, else as a video."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import gymnasium as gym
import numpy as np

from rlher import runs
from rlher.agent import load_agent
from rlher.config import EnjoyConfig
from rlher.display import choose_headless_renderer, has_display
from rlher.evaluation import play_many
from rlher.video import require_video_name, write_video


def enjoy(config: EnjoyConfig) -> int:
    """Play episodes, show or film them, and print each one's outcome.

    :raises UserError: no such run, no readable model, or a video file name of an unknown kind.
    """
    if config.video:
        require_video_name(Path(config.video))
    run = runs.find(config.run, config.logs)
    which = ("best", "last") if config.checkpoint == "auto" else (config.checkpoint,)
    window = config.video is None and has_display()
    if not window:
        choose_headless_renderer()
    mode = "human" if window else "rgb_array"
    agent = load_agent(run, which, config.device, config.deterministic, mode)
    print(f"{run.folder}, {agent.checkpoint} model", file=sys.stderr)
    drawable = mode in (agent.env.metadata.get("render_modes") or ())
    if not drawable:
        print(f"rlher: there is nothing to see: {run.config.env.id} has no render_mode {mode!r}.", file=sys.stderr)
    camera = Camera(agent.env) if drawable and not window else None
    outcomes = []
    try:
        for episode in play_many(agent.env, agent.policy, config.episodes, config.seed, camera):
            outcomes.append(episode)
            if not config.json:
                print(f"episode {len(outcomes)}: {episode}", flush=True)
    finally:
        agent.env.close()
    if config.json:
        episodes = [asdict(each) for each in outcomes]
        print(json.dumps({"run": str(run.folder), "checkpoint": agent.checkpoint, "episodes": episodes}))
    if camera and camera.frames:
        path = Path(config.video) if config.video else run.folder / "enjoy.mp4"
        write_video(path, camera.frames, config.fps or agent.env.metadata.get("render_fps", 30))
        print(f"video: {path}", file=sys.stderr)
    return 1 if config.video and not (camera and camera.frames) else 0


class Camera:
    """Films an environment, a frame a call; when rendering fails it says so once and films no more."""

    def __init__(self, env: gym.Env) -> None:
        self.frames: list[np.ndarray] = []
        self.broken = False
        self._env = env

    def __call__(self) -> None:
        """Take a frame."""
        if self.broken:
            return
        try:
            self.frames.append(np.asarray(self._env.render(), dtype=np.uint8))
        except Exception as error:  # every renderer fails with exceptions of its own
            self.broken = True
            self.frames.clear()
            print(f"rlher: no video, because rendering failed ({type(error).__name__}: {error}).", file=sys.stderr)
            if "mujoco" in sys.modules:
                print(
                    "Without a display MuJoCo needs EGL or OSMesa (Debian: libegl1, or libosmesa6 with "
                    "MUJOCO_GL=osmesa).",
                    file=sys.stderr,
                )
