"""Rules for run folders and recipes of other people: without ``--trust-code``, rlher runs no code from them.

1. Nothing is unpickled, see :mod:`rlher.core.reading` and :mod:`rlher.run.model_file`.
2. A run or recipe that names code, or has text among its keyword arguments, is refused: :func:`require_trusted_code`.
3. Files have a size limit and are regular files, see :mod:`rlher.core.reading`.

The user's own runs and recipes are signed. The last line of the file is a keyed hash of the lines above it, the path of
the file's folder, and the current folder of the command, because Python looks for modules there. rlher draws the secret
key at random when it first needs one, and keeps the key where only the user can read it.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlher.config.training import all_run_keys
from rlher.core.errors import UserError
from rlher.core.nested import leaves
from rlher.core.reading import read_text_or_empty
from rlher.core.writing import sync

SIGNATURE_PREFIX = "# signature: "
SECRET_BYTES = 32


class UntrustedCode(UserError):
    """A file that this user did not sign names code, or may name code. ``key`` is the config key with the name."""

    def __init__(self, path: Path, key: str, value: Any) -> None:
        origin = "It was not written by a command in the current folder, or it was changed since."
        advice = "Read that code, then add --trust-code (in Python trust_code=True)."
        super().__init__(f"{path} may run any code by its {key}={value!r}. {origin} {advice}")
        self.key = key


def trusts_code(overrides: Mapping[str, Any]) -> bool:
    """Return whether overrides set ``trust_code``, as a boolean or as text."""
    return str(overrides.get("trust_code")).lower() == "true"


def require_trusted_code(path: Path, values: Mapping[str, Any], trust_code: bool) -> None:
    """Raise UntrustedCode if a file names code, or may name code, and the user did not sign the file.

    :param values: the values of the file by dotted key. A mapping may be one value (``env.kwargs``) or one key per
        entry (``env.kwargs.x``).
    :param trust_code: whether the user gave ``--trust-code``; then any code is allowed.
    """
    named = [(key, code) for key, value in values.items() for code in _named_code(key, value)]
    if named and not (trust_code or is_signed(path)):
        raise UntrustedCode(path, *named[0])


def _named_code(key: str, value: Any) -> list[Any]:
    """Return the parts of a key's value that name code, or may name code.

    :param key: a config key, or an entry of a mapping, such as ``env.kwargs.x`` or ``her.goal_mix.module:name``.
    """
    keys = all_run_keys().values()
    declared = next((each for each in keys if each.rules.names_code and f"{key}.".startswith(f"{each.name}.")), None)
    if declared is None:
        return []
    entry = key.removeprefix(declared.name).lstrip(".")
    parts = leaves({entry: value} if entry else value)
    if declared.rules.names_code == "module:name":
        return [part for part in parts if ":" in str(part)]
    if declared.takes_list:  # a number may become the name of a module
        return parts
    return [part for part in parts if part and not isinstance(part, int | float)]


# ------------------------------------------------------------------------------------------------ signatures


def sign(text: str, folder: Path) -> str:
    """Return the text of a file with the signature as its last line. Without a secret key, return the text unchanged.

    :param folder: where the file will lie.
    """
    try:
        if not _secret_file().exists():
            _create_secret(_secret_file())
        return f"{text}{SIGNATURE_PREFIX}{_digest(text, folder)}\n"
    except (OSError, RuntimeError):  # no writable home: the file will need --trust-code
        return text


def is_signed(path: Path) -> bool:
    """Return whether this user signed a file from the current folder, and nobody changed or moved the file since."""
    text, prefix, digest = read_text_or_empty(path).rpartition(SIGNATURE_PREFIX)
    with contextlib.suppress(OSError, RuntimeError):
        return bool(prefix) and hmac.compare_digest(_digest(text, path.parent).encode(), digest.strip().encode())
    return False


def _create_secret(path: Path) -> None:
    """Write a new secret key atomically, unless another process wrote a key first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, buffering=0) as temporary:  # only the user can read it
        temporary.write(secrets.token_bytes(SECRET_BYTES))
        sync(Path(temporary.name))
        with contextlib.suppress(FileExistsError):
            os.link(temporary.name, path)


def _digest(text: str, folder: Path) -> str:
    """Return the keyed hash of a text, its folder and the current folder.

    :raises OSError: there is no secret key, or the key is damaged.
    """
    secret = _secret_file().read_bytes()
    if len(secret) != SECRET_BYTES:
        raise OSError(f"{_secret_file()} is damaged")
    content = f"{os.path.realpath(folder)}\0{os.path.realpath(Path.cwd())}\0{text}".encode(errors="surrogateescape")
    return hmac.new(secret, content, hashlib.sha256).hexdigest()


def _secret_file() -> Path:
    """Return the path of the user's secret key. The file may not exist.

    :raises RuntimeError: the user has no home folder.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The XDG standard says to ignore a relative path. It would be in the current folder.
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "rlher" / "key"
