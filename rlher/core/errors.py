"""Exceptions whose message is for the user, and helpers to word them."""

import difflib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import ENOENT
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlher.core.console import escape_control

EXIT_FAILED = 1
"""Exit code of a command whose words were valid, but which failed."""


class ReportedError(Exception):
    """An exception whose message is for the user. The command that it ends returns ``exit_code``."""

    exit_code: int

    def __str__(self) -> str:
        return escape_control(super().__str__())  # it may quote somebody else's file

    def _render_traceback_(self) -> list[str]:
        """Return what IPython and Jupyter print: no traceback through rlher, which says nothing to a user."""
        return [f"{type(self).__name__}: {self}"]


class UserError(ReportedError):
    """The user asked for something impossible: a wrong key, name, value, combination or file. Exit code 2."""

    exit_code = 2


class DamagedFile(UserError):
    """A file is corrupt or has unexpected content; ``path`` names it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}.")
        self.path = path


def pip_install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'rlher[{extra}]' (in a checkout: '.[{extra}]')"


def require_package(what: str, package: str, extra: str | None = None) -> None:
    """Raise UserError unless a package is installed.

    :param what: what needs the package, such as ``logger=wandb``.
    :param extra: the extra that installs the package, by default the extra of the same name.
    """
    if find_spec(package) is None:
        install = pip_install(extra or package)
        raise UserError(f"{what} needs the package {package}, which is not installed; run {install}.")


class RunError(ReportedError):
    """Code that rlher calls raised, died or returned NaN, or training diverged. Exit code 1.

    The code may be the environment, or the user's own callback, strategy or loss. The message names the line.

    :ivar folder: run folder of the training that the error ended, for callers in Python.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str, folder: Path | None = None) -> None:
        super().__init__(message)
        self.folder = folder


@contextmanager
def as_run_error(what: str) -> Iterator[None]:
    """Turn exceptions of an environment's or a user's code in the block into a RunError "<what> raised …".

    Ctrl-C, UserError and RunError pass unchanged. SystemExit becomes a RunError; otherwise the environment would choose
    the exit code of rlher.
    """
    try:
        yield
    except (RunError, UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RunError(f"{what} raised {describe_error(error)}.") from error


@contextmanager
def as_read_error(path: Path, passed: type[Exception] = UserError) -> Iterator[None]:
    """Turn any exception of a block that reads ``path`` into a UserError that names the path.

    A UserError passes unchanged.

    :param passed: another kind of exception that passes unchanged.
    :raises DamagedFile: the content is incomplete or malformed, whatever exception the reading library raised.
    :raises UserError: the operating system cannot read the file, which may be intact.
    """
    try:
        yield
    except (UserError, passed):
        raise
    except Exception as error:  # `from None`: a cause would be printed with somebody else's text
        if isinstance(error, OSError) and error.errno not in (None, ENOENT):  # h5py raises OSErrors without errno
            raise unreadable(path, error) from None
        raise DamagedFile(path, first_line(error)) from None


def describe_error(error: BaseException) -> str:
    """Return ``"ValueError: message (file.py, line 12)"``.

    The text is the first line of the message. The file and line are the last frame outside NumPy. They are left out if
    that frame is in rlher: then the call itself failed, because the user's function takes other arguments.
    """
    stack = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in stack if "/numpy/" not in frame.filename]
    is_outside = frames and not Path(frames[-1].filename).is_relative_to(Path(__file__).parents[1])
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if is_outside else ""
    class_name = type(error).__name__
    text = first_line(error)
    return f"{class_name}{where}" if text == class_name else f"{class_name}: {text}{where}"


def describe_value(value: Any) -> str:
    """Describe a value for a message: ``"None"``, ``"float64 of shape (204,)"``, ``"list of length 3"``."""
    if isinstance(value, tuple) and 0 < len(value) <= 3:
        return f"({', '.join(map(describe_value, value))})"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    class_name = "None" if value is None else type(value).__name__
    return f"{class_name} of length {len(value)}" if isinstance(value, list | tuple) else class_name


def os_error_reason(error: OSError) -> str:
    """Return why a file cannot be read or written, for example ``"No space left on device"``."""
    return error.strerror or first_line(error)


def unreadable(path: Path, error: OSError) -> UserError:
    """Return the exception for a file that the operating system cannot read, although its content may be intact."""
    return UserError(f"cannot read {path}: {os_error_reason(error)}; check its permissions and the disk.")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message without its full stop, or the error's type without a message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x' or 'y'?)"`` for the known names nearest to ``name``, or ``""``.

    Case is ignored: users type ``fetchreach-v4``.
    """
    spelling = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), spelling, n=1, cutoff=0.85)
    near = near or difflib.get_close_matches(name.lower(), spelling, n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(repr(spelling[match]) for match in near)}?)" if near else ""
