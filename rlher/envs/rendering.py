"""What this machine and an environment can draw."""

import os
import sys

import gymnasium as gym


def has_display() -> bool:
    """Return whether a window can be opened."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def supports_rgb_array(env: gym.Env) -> bool:
    """Return whether an environment can return pictures of itself."""
    return "rgb_array" in (env.metadata.get("render_modes") or ())
