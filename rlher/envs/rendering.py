"""Where pictures can be shown, and what draws them where they cannot."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from rlher.core.errors import UserError

SDL_INVISIBLE = "offscreen"  # with SDL's other driver without a window, dummy, highway-env draws nothing
MUJOCO_INVISIBLE = ("egl", "osmesa")
PROBE = """
import mujoco
from mujoco.{backend} import GLContext
context = GLContext(8, 8)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), mujoco.mjtFontScale.mjFONTSCALE_100)
"""


class NoRenderer(UserError):
    """Nothing on this machine can draw the environment."""


def has_display() -> bool:
    """Tell whether a window can be opened: where DISPLAY names one that is gone, MuJoCo would abort the process."""
    return sys.platform in ("darwin", "win32") or any(_answers(*address) for address in _displays())


def _displays() -> Iterator[tuple[int, Any]]:
    """List the sockets behind WAYLAND_DISPLAY and DISPLAY, by family and address."""
    if name := os.environ.get("WAYLAND_DISPLAY"):
        yield socket.AF_UNIX, os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), name)
    if found := re.fullmatch(r"(.*):(\d+)(\.\d+)?", os.environ.get("DISPLAY", "")):
        host, number = found[1], int(found[2])
        if host in ("", "unix"):
            yield socket.AF_UNIX, f"/tmp/.X11-unix/X{number}"
            yield socket.AF_UNIX, f"\0/tmp/.X11-unix/X{number}"
        else:  # as ssh -X has it
            yield socket.AF_INET, (host, 6000 + number)


def _answers(family: int, address: Any) -> bool:
    with socket.socket(family) as client:
        client.settimeout(3)
        try:
            client.connect(address)
        except OSError:
            return False
        return True


def before_building() -> None:
    """Do what must come before an environment that will be drawn without a window is built."""
    if os.environ.get("SDL_VIDEODRIVER", "dummy") == "dummy":
        os.environ["SDL_VIDEODRIVER"] = SDL_INVISIBLE
    if os.environ.get("MUJOCO_GL"):  # which MuJoCo reads on import, and dies of where it does not work
        _choose_for_mujoco()


def before_drawing() -> None:
    """Choose what draws MuJoCo's environments, once one of them is there.

    :raises NoRenderer: nothing does; the sentence says what to install.
    """
    if "mujoco" in sys.modules and sys.platform == "linux" and (complaint := _choose_for_mujoco()):
        raise NoRenderer(complaint)


@cache
def _choose_for_mujoco() -> str | None:
    """Take the first backend of OpenGL that draws, beginning with what MUJOCO_GL asks for; return what to say if none.

    Each is tried in a process of its own: a driver may crash, and PyOpenGL cannot change its mind once it is loaded.
    """
    asked = os.environ.pop("MUJOCO_GL", "")
    windowed = ("glfw",) if has_display() else ()
    failures: dict[str, str] = {}
    for backend in dict.fromkeys([*([asked] if asked else []), *MUJOCO_INVISIBLE, *windowed]):
        if failure := _failure_of(backend):
            failures[backend] = failure
            continue
        os.environ["MUJOCO_GL"] = backend
        if backend in MUJOCO_INVISIBLE:
            os.environ["PYOPENGL_PLATFORM"] = backend
        if asked in failures:
            print(f"rlher: drawing with {backend}, because MUJOCO_GL={asked} fails: {failures[asked]}", file=sys.stderr)
        return None
    tried = ", ".join(f"{backend} ({failure})" for backend, failure in failures.items())
    return (
        f"MuJoCo finds nothing to draw with; tried {tried}. `apt-get install libegl1 libgl1-mesa-dri` (EGL) or "
        "`apt-get install libosmesa6` (OSMesa) mends that on Debian, no GPU needed."
    )


def _failure_of(backend: str) -> str | None:
    """Say why a backend cannot draw; None: it can."""
    environment = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROBE.format(backend=backend)],
            env={**environment, "MUJOCO_GL": backend},
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if done.returncode == 0:
        return None
    found = re.search(r"^[\w.]*Error: (.*?)(?:\. |\.?$)", done.stderr, re.MULTILINE)
    if found is None:
        return f"exit status {done.returncode}"
    return "no such library" if "NoneType" in found[1] else found[1]  # PyOpenGL looks functions up in None then
