"""Rendering on machines without a display or OpenGL, and environments that cannot be rendered."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlher.config.environment import EnvConfig
from rlher.core.errors import UserError
from rlher.envs import simulators
from rlher.envs.make import make_env
from rlher.envs.simulators import choose_mujoco_renderer
from rlher.evaluation import captions
from rlher.evaluation.rollout import play_episodes
from rlher.evaluation.video import record_video
from tests.conftest import TINY
from tests.envs.test_env_yaml import load
from tests.support.video import is_blank, read_frames


def test_the_camera_of_an_environment_is_set() -> None:
    config = EnvConfig(id="AntMaze_UMaze-v5", success_key="success", camera={"distance": 24, "lookat": [0, 0, 1]})
    env = make_env(config, render_mode="rgb_array")
    renderer = env.unwrapped.ant_env.mujoco_renderer
    assert renderer.default_cam_config["distance"] == 24
    assert renderer.default_cam_config["lookat"].tolist() == [0, 0, 1]
    assert renderer.camera_id == -1, "not the camera that follows the ant"
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AntMaze_UMaze-v5", "PointMaze_UMaze-v3", "PointMaze_Medium-v3"])
def test_films_of_mazes_show_the_goal(name: str) -> None:
    env = make_env(load(name), render_mode="rgb_array")
    for seed in range(5):
        env.reset(seed=seed)
        env.step(np.zeros(env.action_space.shape))
        try:
            choose_mujoco_renderer()
        except UserError:
            pytest.skip("no OpenGL on this machine")
        red, green, blue = np.moveaxis(env.render().astype(int), -1, 0)
        assert ((red > 150) & (green < 60) & (blue < 60)).sum() > 100, f"the goal of seed {seed}"
    env.close()


def test_parking_is_recorded_despite_a_dummy_video_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """highway-env draws nothing with SDL_VIDEODRIVER=dummy, which is common on servers."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    config = EnvConfig(id="parking-v0", max_episode_steps=2, success_key="is_success")
    env = make_env(config, render_mode="rgb_array")
    with record_video(tmp_path / "video.mp4", env, config, 1) as recorder:
        list(play_episodes(env, lambda observation: np.zeros(2), [0], on_step=recorder))
    env.close()
    assert not any(is_blank(frame[: -captions.HEIGHT]) for frame in read_frames(tmp_path / "video.mp4"))


def test_an_environment_that_cannot_be_rendered_is_reported(rlher) -> None:
    tiny = (*TINY, "total_timesteps=60", "eval.freq=20")
    done = rlher("train", "algo=sac", "env=LineEnv-v0", "env.modules=[hostile_envs]", *tiny, "record=true")
    assert done.code == 0, done.err
    assert done.err.count("'rgb_array'") == 1, "one warning, and the run continues"
    watched = rlher("enjoy", "--episodes", "1")
    assert (watched.code, "'rgb_array'" in watched.err) == (2, True)


ENJOY = ("enjoy", "env=FetchPush-v4", "controller=scripted", "--episodes", "1", "--video", "video.mp4")


def run_command(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    """Run a command in a new process, in which MuJoCo was not imported yet."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    command = [sys.executable, "-m", "rlher.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**inherited, **environment}, cwd=folder)


def test_packages_to_install_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    monkeypatch.setattr(simulators, "find_library", lambda name: None)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(UserError, match="libegl1"):
        choose_mujoco_renderer()


@pytest.mark.slow
def test_mujoco_uses_an_installed_renderer(tmp_path: Path) -> None:
    """Without a display GLFW cannot draw."""
    done = run_command(tmp_path, *ENJOY, DISPLAY="", WAYLAND_DISPLAY="")
    if "apt-get install" in done.stderr:
        pytest.skip("no OpenGL on this machine")
    assert done.returncode == 0, done.stderr
    frames = read_frames(tmp_path / "video.mp4")
    assert frames[0].shape == (480 + captions.HEIGHT, 480, 3)
    assert not any(is_blank(frame[: -captions.HEIGHT]) for frame in frames)
