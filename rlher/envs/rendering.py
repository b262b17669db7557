"""Displays and off-screen renderers: which of them this machine has."""

import os
import sys
from ctypes.util import find_library
from dataclasses import asdict
from importlib import import_module

import gymnasium as gym
import numpy as np

from rlher.config.environment import CameraConfig
from rlher.core.errors import UserError, first_line

SDL_OFFSCREEN = "offscreen"  # highway-env draws nothing with "dummy", SDL's other driver without a window

MUJOCO_OFFSCREEN = {"egl": "EGL", "osmesa": "OSMesa"}
"""MuJoCo's backends that need no display, and the library of each."""

FREE_CAMERA = -1
"""MuJoCo's number of the camera that no model defines."""


def has_display() -> bool:
    """Return whether a window can be opened."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def supports_rgb_array(env: gym.Env) -> bool:
    """Return whether an environment can return pictures of itself."""
    return "rgb_array" in (env.metadata.get("render_modes") or ())


def can_draw_goals(shape: tuple[int, ...] | None) -> bool:
    """Return whether goals of a shape can be drawn, see :class:`rlher.evaluation.goal_picture.GoalPicture`."""
    return shape in ((2,), (3,))


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


def use_offscreen_sdl() -> None:
    """Set up off-screen rendering; call it before building an environment that is rendered without a window."""
    if os.environ.get("SDL_VIDEODRIVER", "dummy") == "dummy":
        os.environ["SDL_VIDEODRIVER"] = SDL_OFFSCREEN


def choose_mujoco_renderer() -> None:
    """Set MUJOCO_GL, unless it is set, to an OpenGL backend that is installed, if a MuJoCo environment is built.

    By itself MuJoCo opens a window of GLFW first, which ends the process on a machine without a display.

    :raises UserError: there is no backend, or it does not work; the message says what to do.
    """
    requested = os.environ.get("MUJOCO_GL")
    if "mujoco" not in sys.modules or sys.platform != "linux" or (requested and requested != "glfw"):
        return
    if requested and has_display():
        return
    for backend, library in MUJOCO_OFFSCREEN.items():
        if find_library(library):
            try:
                import_module(f"mujoco.{backend}")
            except Exception as error:
                reason = f"MuJoCo cannot render with {backend} ({first_line(error)})"
                raise UserError(f"{reason}; set MUJOCO_GL to another backend, egl, osmesa or glfw.") from error
            os.environ["MUJOCO_GL"] = backend
            return
    if not has_display():
        raise UserError(
            "MuJoCo has no renderer here. Install one, on Debian with `apt-get install libegl1 libgl1-mesa-dri` (EGL) "
            "or `apt-get install libosmesa6` (OSMesa); no GPU is needed."
        )
