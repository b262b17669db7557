"""Signatures of run folders: they distinguish runs that this user trained from those of other people.

The last line of ``config.yaml`` is a keyed hash of the lines before it and of the path of the folder. The key is drawn
at random when the first run starts, and kept where only the user can read it.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from rlher.core.files import atomic_write

PREFIX = "# signature: "
KEY_BYTES = 32


def sign(text: str, folder: Path) -> str:
    """Return the text of a ``config.yaml`` with the signature as its last line; without it if there is no key."""
    try:
        key = _key_file()
        if not key.exists():
            key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with atomic_write(key) as temporary:
                temporary.write_bytes(secrets.token_bytes(KEY_BYTES))
            key.chmod(0o600)
        return f"{text}{PREFIX}{_digest(text, folder)}\n"
    except (OSError, RuntimeError):  # no home, or it cannot be written: the run will need --trust-code
        return text


def is_signed(folder: Path, name: str) -> bool:
    """Return whether a file of a run folder has the signature of this user, and its folder has not moved since."""
    with contextlib.suppress(OSError, RuntimeError, UnicodeDecodeError):
        text, prefix, digest = (folder / name).read_text(encoding="utf-8").rpartition(PREFIX)
        return bool(prefix) and hmac.compare_digest(_digest(text, folder), digest.strip())
    return False


def _digest(text: str, folder: Path) -> str:
    """:raises OSError: there is no key, or it is damaged."""
    key = _key_file().read_bytes()
    if len(key) != KEY_BYTES:
        raise OSError(f"{_key_file()} is damaged")
    return hmac.new(
        key, f"{os.path.realpath(folder)}\0{text}".encode(errors="surrogateescape"), hashlib.sha256
    ).hexdigest()


def _key_file() -> Path:
    """:raises RuntimeError: the user has no home folder."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "rlher" / "key"
