"""Corrections of simulators, with a section for each: workarounds for faults, and a faster step of Fetch.

Corrections of highway-env's functions are in :mod:`rlher.envs.highway_env_patch`.
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

from rlher.core.errors import UserError
from rlher.core.machine import has_display

MUJOCO_OFFSCREEN = {"egl": "EGL", "osmesa": "OSMesa"}
"""MuJoCo's rendering backends that need no display, with the library of each."""

FREE_CAMERA = -1
"""MuJoCo's id of the free camera, which no model defines."""


def import_env_package(package: str) -> None:
    """Import a package that registers environments; suppress the release notices that it prints to stderr.

    :raises ImportError: the package is not installed, or its installation is broken.
    """
    with contextlib.redirect_stderr(io.StringIO()):
        importlib.import_module(package)
    if package == "highway_env":
        from rlher.envs.highway_env_patch import patch_highway_env

        patch_highway_env()


def simulator_construction(package: str, kwargs: dict[str, Any]) -> AbstractContextManager[None]:
    """Return a context in which to build an environment. In it, PyBullet prints nothing.

    :param package: package of the environment.
    :param kwargs: keyword arguments of the environment's constructor.
    :raises UserError: PyBullet would open a window, and there is no display.
    """
    if kwargs.get("renderer") == "OpenGL" and not has_display():  # PyBullet would hang, or end the process
        raise UserError("env.kwargs.renderer=OpenGL needs a display; leave it out.")
    return _silent_stdout() if package == "panda_gym" else contextlib.nullcontext()


def correct_simulator(env: gym.Env) -> gym.Env:
    """Apply the corrections for MuJoCo, Fetch and Panda to an environment, and return it."""
    if "mujoco" in sys.modules:  # by default it writes warnings into MUJOCO_LOG.TXT in the current folder
        sys.modules["mujoco"].set_mju_user_warning(lambda text: warnings.warn(text, RuntimeWarning, stacklevel=1))
    module = type(env.unwrapped).__module__
    if module.startswith("panda_gym."):
        return SeededResets(env)
    if module.startswith("gymnasium_robotics.envs.fetch."):
        _read_fingers_only(env.unwrapped)
    return env


# --------------------------------------------------------------------------------------------------------------- MuJoCo


def aim_mujoco_camera(env: gym.Env, camera: Mapping[str, Any]) -> None:
    """Replace the camera of a MuJoCo environment by a free camera. Other environments stay as they are.

    :param camera: attributes of MuJoCo's ``MjvCamera``; empty to keep the environment's camera.
    """
    values = {name: value for name, value in camera.items() if value is not None}
    if not values:
        return
    if "lookat" in values:
        values["lookat"] = np.asarray(values["lookat"])
    for owner in (env.unwrapped, *vars(env.unwrapped).values()):  # a maze is rendered by an environment that it holds
        renderer = getattr(owner, "mujoco_renderer", None) if isinstance(owner, gym.Env) else None
        if renderer:
            renderer.default_cam_config = {**(renderer.default_cam_config or {}), **values}
            renderer.camera_id = FREE_CAMERA


def choose_mujoco_renderer() -> None:
    """If MuJoCo is imported and MUJOCO_GL is not set, set it to an installed OpenGL backend.

    By default MuJoCo tries to open a GLFW window first. Without a display, this ends the process.

    :raises UserError: no backend is installed. The message says what to do.
    """
    if "mujoco" not in sys.modules or sys.platform != "linux" or os.environ.get("MUJOCO_GL"):
        return
    installed = [backend for backend, library in MUJOCO_OFFSCREEN.items() if find_library(library)]
    if installed:
        os.environ["MUJOCO_GL"] = installed[0]
    elif not has_display():
        raise UserError(
            "MuJoCo has no renderer here. Install one, on Debian with `apt-get install libegl1 libgl1-mesa-dri` (EGL) "
            "or `apt-get install libosmesa6` (OSMesa); no GPU is needed."
        )


# ---------------------------------------------------------------------------------------------------------------- Fetch


def _read_fingers_only(fetch: Any) -> None:
    """Let a Fetch environment read only the two finger joints, because it uses no others.

    By default it reads all 15 joints of the robot by name, which takes a fifth of the time of a step
    (``generate_mujoco_observations`` of gymnasium-robotics 1.4).
    """
    names = fetch._model_names
    names._joint_names = [name for name in names.joint_names if name.startswith("robot")][-2:]


# ---------------------------------------------------------------------------------------------------- SDL (highway-env)


def use_offscreen_sdl() -> None:
    """Let SDL render without a window in environments that are built after this call."""
    if os.environ.get("SDL_VIDEODRIVER", "dummy") == "dummy":  # with "dummy", highway-env draws nothing
        os.environ["SDL_VIDEODRIVER"] = "offscreen"


# ------------------------------------------------------------------------------------------------- PyBullet (panda-gym)


@contextlib.contextmanager
def _silent_stdout() -> Iterator[None]:
    """Discard what PyBullet's C code writes to stdout, where rlher prints JSON."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    saved = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    try:
        yield
    finally:
        libc.fflush(None)  # otherwise C's buffer would be written to the restored stdout
        os.dup2(saved, 1)
        os.close(saved)


class SeededResets(gym.Wrapper):
    """Derive the seed of each unseeded reset from the last given seed, so that runs are reproducible.

    Other environments continue with Gymnasium's generator on an unseeded reset, so a seeded run repeats itself and can
    be resumed exactly. panda-gym 3.0.7 draws a new random seed (``RobotTaskEnv.reset``).
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset with the given seed, or with the next one."""
        if seed is None:
            seed = int(self._rng.integers(2**31))
        else:
            self._rng = np.random.default_rng(seed)  # used for seeds only
        return self.env.reset(seed=seed, options=options)
