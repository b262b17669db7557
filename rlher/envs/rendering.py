"""Displays and off-screen renderers: which of them work on this machine."""

import os
import re
import socket
import subprocess
import sys
from dataclasses import asdict
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.config.environment import CameraConfig
from rlher.core.console import warn
from rlher.core.errors import UserError

SDL_OFFSCREEN = "offscreen"  # highway-env draws nothing with "dummy", SDL's other driver without a window
MUJOCO_OFFSCREEN = ("egl", "osmesa")
PROBE = """
import mujoco
from mujoco.{backend} import GLContext
context = GLContext(8, 8)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), mujoco.mjtFontScale.mjFONTSCALE_100)
"""
"""Program that fails unless MuJoCo can draw with a backend."""

FREE_CAMERA = -1
"""MuJoCo's number of the camera that no model defines."""


class NoRenderer(UserError):
    """No renderer on this machine can draw the environment."""


def has_display() -> bool:
    """Return whether a window can be opened; with a DISPLAY that does not exist, MuJoCo would abort the process."""
    if sys.platform in ("darwin", "win32"):
        return True
    addresses: list[tuple[int, Any]] = []
    if name := os.environ.get("WAYLAND_DISPLAY"):
        addresses.append((socket.AF_UNIX, os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), name)))
    if found := re.fullmatch(r"(.*):(\d+)(\.\d+)?", os.environ.get("DISPLAY", "")):
        if found[1] in ("", "unix"):
            addresses += [(socket.AF_UNIX, f"{start}/tmp/.X11-unix/X{found[2]}") for start in ("", "\0")]
        else:  # as with ssh -X
            addresses.append((socket.AF_INET, (found[1], 6000 + int(found[2]))))
    return any(_can_connect(*address) for address in addresses)


def _can_connect(family: int, address: Any) -> bool:
    with socket.socket(family) as client:
        client.settimeout(3)
        try:
            client.connect(address)
        except OSError:
            return False
        return True


def aim_mujoco_camera(env: gym.Env, camera: CameraConfig) -> None:
    """Replace the camera of a MuJoCo environment by a free one; without effect on other environments.

    :param camera: without effect if all its values are None.
    """
    values = {name: value for name, value in asdict(camera).items() if value is not None}
    if "lookat" in values:
        values["lookat"] = np.asarray(values["lookat"])
    for owner in (env.unwrapped, *vars(env.unwrapped).values()):  # mazes hold another environment, which draws them
        if values and isinstance(owner, gym.Env) and (renderer := getattr(owner, "mujoco_renderer", None)):
            renderer.default_cam_config = {**(renderer.default_cam_config or {}), **values}
            renderer.camera_id = FREE_CAMERA


def configure_offscreen() -> None:
    """Set up off-screen rendering; call it before building an environment that is rendered without a window."""
    if os.environ.get("SDL_VIDEODRIVER", "dummy") == "dummy":
        os.environ["SDL_VIDEODRIVER"] = SDL_OFFSCREEN
    if os.environ.get("MUJOCO_GL"):  # MuJoCo reads it on import, and raises if it does not work
        _choose_mujoco_backend()


def choose_mujoco_renderer() -> None:
    """Choose the OpenGL backend of MuJoCo, if one of its environments is built.

    :raises NoRenderer: no backend works; the message names packages to install.
    """
    if "mujoco" in sys.modules and sys.platform == "linux" and (problem := _choose_mujoco_backend()):
        raise NoRenderer(problem)


@cache
def _choose_mujoco_backend() -> str | None:
    """Set MUJOCO_GL to the first OpenGL backend that works, its previous value first; return a message if none does.

    Each is tried in another process, because a driver may crash, and PyOpenGL cannot switch once it is loaded.
    """
    requested = os.environ.pop("MUJOCO_GL", "")
    windowed = ("glfw",) if has_display() else ()
    failures: dict[str, str] = {}
    for backend in dict.fromkeys([*([requested] if requested else []), *MUJOCO_OFFSCREEN, *windowed]):
        if failure := _failure_of(backend):
            failures[backend] = failure
            continue
        os.environ["MUJOCO_GL"] = backend
        if backend in MUJOCO_OFFSCREEN:
            os.environ["PYOPENGL_PLATFORM"] = backend
        if requested in failures:
            warn(f"rendering with {backend}, because MUJOCO_GL={requested} fails: {failures[requested]}")
        return None
    tried = ", ".join(f"{backend} ({failure})" for backend, failure in failures.items())
    return (
        f"MuJoCo has no working renderer; tried {tried}. Install one, on Debian with `apt-get install libegl1 "
        "libgl1-mesa-dri` (EGL) or `apt-get install libosmesa6` (OSMesa); no GPU is needed."
    )


def _failure_of(backend: str) -> str | None:
    """Return why a backend does not work, None if it does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROBE.format(backend=backend)],  # -P: no modules of the current folder
            env={**environment, "MUJOCO_GL": backend},
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if done.returncode == 0:
        return None
    line = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return "library not found" if "NoneType" in line else line.rstrip(".")  # PyOpenGL's error for a missing library
