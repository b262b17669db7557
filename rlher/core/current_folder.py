"""Keep the current folder, which may be a run from somebody else, out of where code is looked for."""

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path


def forbid_code_from_current_folder() -> None:
    """Let neither this process nor one that it starts, by whichever library, take code from the current folder.

    A notebook searches the current folder for modules; from now on, it searches the present one. A user's own modules
    have an explicit path, see :func:`rlher.core.user_code.import_module`.
    """
    with suppress(OSError):  # the current folder was deleted
        sys.path[:] = [folder or os.getcwd() for folder in sys.path]
    os.environ["PYTHONSAFEPATH"] = "1"  # for `python -c`, which torch, glfw, multiprocessing and others start
    with suppress(RuntimeError):  # there is no home
        # Torch unpickles what it caches, by default in a folder for temporary files, where archives are unpacked.
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
