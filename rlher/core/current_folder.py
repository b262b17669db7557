"""Remove the current folder from the places where code is searched: it may be somebody else's run folder."""

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path


def forbid_code_from_current_folder() -> None:
    """Keep this process, and every process that it or a library starts, from loading code from the current folder.

    A notebook searches the current folder for modules. Afterwards it searches the folder that is current now, even if
    the current folder changes. A user's own modules get an explicit path, see
    :func:`rlher.core.user_code.import_module`.
    """
    with suppress(OSError):  # the current folder was deleted
        sys.path[:] = [folder or os.getcwd() for folder in sys.path]
    os.environ["PYTHONSAFEPATH"] = "1"  # for `python -c`, which torch, glfw, multiprocessing and others start
    with suppress(RuntimeError):  # there is no home
        # Torch unpickles its cache. By default the cache is in the folder for temporary files, where users may unpack
        # archives of other people.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path.home() / ".cache" / "torchinductor"))
    _use_bundled_glfw()


def _use_bundled_glfw() -> None:
    """Let MuJoCo load the GLFW library of the package ``glfw``, which otherwise looks in the current folder first."""
    spec = find_spec("glfw")
    if os.environ.get("PYGLFW_LIBRARY") or spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent
    if sys.platform == "linux":
        folder /= "wayland" if os.environ.get("XDG_SESSION_TYPE") == "wayland" else "x11"
    if libraries := sorted(folder.glob("libglfw*")):
        os.environ["PYGLFW_LIBRARY"] = str(libraries[0])
