"""Which GLFW library MuJoCo loads."""

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "PYGLFW_LIBRARY"
"""Environment variable with the path of the library, which the package ``glfw`` reads when it is imported."""


@cache
def use_bundled_glfw() -> None:
    """Let MuJoCo load the GLFW library that comes with the package ``glfw``, if nothing else was chosen.

    Otherwise the package starts ``python -c`` for each library that it finds. That takes a quarter of a second, and
    imports modules from the current folder, which may be a stranger's.
    """
    spec = find_spec("glfw")
    if VARIABLE in os.environ or spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent
    if sys.platform == "linux":
        folder /= "wayland" if os.environ.get("XDG_SESSION_TYPE") == "wayland" else "x11"
    if found := sorted(folder.glob("libglfw*")):
        os.environ[VARIABLE] = str(found[0])
