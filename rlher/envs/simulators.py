"""Corrections of simulators, a section for each: faults that rlher works around, and a step that is made faster.

Longer ones are in other files: the functions of highway-env in :mod:`rlher.envs.highway_env_patch`, and what must be
set before the first import, as for GLFW, in :mod:`rlher.core.current_folder`.
"""

import contextlib
import ctypes
import importlib
import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from ctypes.util import find_library
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.core.errors import UserError, first_line
from rlher.core.machine import has_display

MUJOCO_OFFSCREEN = {"egl": "EGL", "osmesa": "OSMesa"}
"""MuJoCo's backends that need no display, and the library of each."""

FREE_CAMERA = -1
"""MuJoCo's number of the camera that no model defines."""


def import_env_package(package: str) -> None:
    """Import a package that registers environments, without the release notices that it prints to stderr.

    :raises ImportError: it is not installed, or its installation is broken.
    :raises UserError: MuJoCo, which loads its OpenGL library on import, cannot use the backend that MUJOCO_GL names.
    """
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            importlib.import_module(package)
    except Exception as error:
        wanted = os.environ.get("MUJOCO_GL")
        if not wanted or isinstance(error, ModuleNotFoundError):
            raise
        raise UserError(
            f"{package} cannot be imported, because MUJOCO_GL={wanted} does not work here ({error}); unset it."
        ) from error
    if package == "highway_env":
        from rlher.envs.highway_env_patch import patch_highway_env

        patch_highway_env()


def simulator_construction(package: str, kwargs: dict[str, Any]) -> AbstractContextManager[None]:
    """Return a context in which an environment is built; it keeps PyBullet from the files of the current folder.

    :param package: package of the environment.
    :param kwargs: keyword arguments of its constructor.
    :raises UserError: PyBullet would open a window, and there is no display.
    """
    if kwargs.get("renderer") == "OpenGL" and not has_display():  # PyBullet would hang, or end the process
        raise UserError("env.kwargs.renderer=OpenGL needs a display; leave it out.")
    return _in_pybullet_data() if package == "panda_gym" else contextlib.nullcontext()


def correct_simulator(env: gym.Env) -> gym.Env:
    """Return an environment with the corrections below, which are for MuJoCo, Fetch and Panda."""
    if "mujoco" in sys.modules:  # otherwise it writes to MUJOCO_LOG.TXT in the current folder, also through a link
        sys.modules["mujoco"].set_mju_user_warning(lambda text: warnings.warn(text, RuntimeWarning, stacklevel=1))
    module = type(env.unwrapped).__module__
    if module.startswith("panda_gym."):
        return SeededResets(env)
    if module.startswith("gymnasium_robotics.envs.fetch."):
        _read_fingers_only(env.unwrapped)
    return env


# --------------------------------------------------------------------------------------------------------------- MuJoCo


def aim_mujoco_camera(env: gym.Env, camera: Mapping[str, Any]) -> None:
    """Replace the camera of a MuJoCo environment by a free one; without effect on other environments.

    :param camera: attributes of MuJoCo's ``MjvCamera``; empty: the environment's own camera.
    """
    values = {name: np.asarray(value) for name, value in camera.items() if value is not None}
    if not values:
        return
    for owner in (env.unwrapped, *vars(env.unwrapped).values()):  # mazes hold another environment, which draws them
        renderer = getattr(owner, "mujoco_renderer", None) if isinstance(owner, gym.Env) else None
        if renderer:
            renderer.default_cam_config = {**(renderer.default_cam_config or {}), **values}
            renderer.camera_id = FREE_CAMERA


def choose_mujoco_renderer() -> None:
    """Set MUJOCO_GL, unless it is set, to an OpenGL backend that is installed, if a MuJoCo environment is built.

    By itself MuJoCo opens a window of GLFW first, which ends the process on a machine without a display.

    :raises UserError: there is no backend, or it does not work; the message says what to do.
    """
    requested = os.environ.get("MUJOCO_GL")
    keeps_request = has_display() if requested == "glfw" else bool(requested)
    if "mujoco" not in sys.modules or sys.platform != "linux" or keeps_request:
        return
    for backend, library in MUJOCO_OFFSCREEN.items():
        if find_library(library):
            try:
                importlib.import_module(f"mujoco.{backend}")
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


# ---------------------------------------------------------------------------------------------------------------- Fetch


def _read_fingers_only(fetch: Any) -> None:
    """Let a Fetch environment read the two joints that it uses, its fingers, not all 15 of the robot by their names.

    That takes a fifth of the time of a step (``generate_mujoco_observations`` of gymnasium-robotics 1.4).
    """
    names = fetch._model_names
    names._joint_names = [name for name in names.joint_names if name.startswith("robot")][-2:]


# ---------------------------------------------------------------------------------------------------- SDL (highway-env)


def use_offscreen_sdl() -> None:
    """Let SDL render without a window, in environments that are built from now on."""
    if os.environ.get("SDL_VIDEODRIVER", "dummy") == "dummy":  # with which highway-env draws nothing
        os.environ["SDL_VIDEODRIVER"] = "offscreen"


# ------------------------------------------------------------------------------------------------- PyBullet (panda-gym)


@contextlib.contextmanager
def _in_pybullet_data() -> Iterator[None]:
    """Let PyBullet find its own models, and discard what its C code prints to stdout, where our JSON goes.

    It looks for models in the current folder first, which may come from somebody else.
    """
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    saved = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    try:
        with contextlib.chdir(importlib.import_module("pybullet_data").getDataPath()):
            yield
    finally:
        libc.fflush(None)  # otherwise C's buffer would be written to the restored stdout
        os.dup2(saved, 1)
        os.close(saved)


class SeededResets(gym.Wrapper):
    """Give a reset without a seed one that follows from the last seed that was given.

    Gymnasium continues with its generator instead, so that a run with a seed repeats itself and can be resumed exactly;
    panda-gym 3.0.7 does not (``RobotTaskEnv.reset``).
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset with the given seed, or with the next one."""
        if seed is None:
            seed = int(self._rng.integers(2**31))
        else:
            self._rng = np.random.default_rng(seed)  # the environment's own stream, but it draws nothing but seeds
        return self.env.reset(seed=seed, options=options)
