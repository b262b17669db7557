"""Where pictures can be shown, and what draws them where they cannot."""

import os
import sys
from ctypes.util import find_library


def has_display() -> bool:
    """Tell whether a window can be opened."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def choose_headless_renderer() -> None:
    """Point SDL and MuJoCo at renderers that need no display, unless the environment already says which."""
    if os.environ.get("SDL_VIDEODRIVER", "dummy") == "dummy":  # with which highway-env draws nothing
        os.environ["SDL_VIDEODRIVER"] = "offscreen"
    if "MUJOCO_GL" not in os.environ:
        for backend, library in (("egl", "EGL"), ("osmesa", "OSMesa")):
            if find_library(library):
                os.environ["MUJOCO_GL"] = backend
                return
