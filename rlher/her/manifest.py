"""The manifest of a saved buffer, ``buffer.json``: reading, checks against damage, and writing."""

import json
import os
import re
from pathlib import Path
from typing import Any

from rlher.her.ring import Ring
from rlher.her.storage import Storage

VERSION = 3
READABLE = (2, 3)
"""Version 2 stored all goals as float32, and named a field of the rows otherwise."""

MANIFEST = "buffer.json"


class UnsuitableFolder(ValueError):
    """A folder contains no replay buffer, or one of another version, other spaces or another size."""


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return a folder's manifest; None where there is none.

    :raises ValueError: it is not JSON.
    """
    try:
        found = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{folder / MANIFEST} is damaged: {error}") from error
    return found if isinstance(found, dict) else {}


def write_manifest(folder: Path, manifest: dict[str, Any]) -> int:
    """Replace a folder's manifest; return the number of bytes."""
    text = json.dumps(manifest, indent=1)
    new = folder / "buffer.new.json"
    new.unlink(missing_ok=True)  # it may be a link
    new.write_text(text)
    os.replace(new, folder / MANIFEST)
    return len(text)


def validate_manifest(manifest: dict[str, Any] | None, storage: Storage, folder: Path) -> None:
    """Raise an error if a storage cannot be filled from this manifest.

    :raises UnsuitableFolder: there is none, or it has another version or number of environments.
    :raises Exception: it is damaged.
    """
    if manifest is None or manifest.get("version") not in READABLE:
        raise UnsuitableFolder(f"{folder} holds no replay buffer that this version can read; check the path.")
    if len(manifest["rings"]) != storage.n_envs:
        found = len(manifest["rings"])
        raise UnsuitableFolder(f"the replay buffer in {folder} has n_envs={found}, not {storage.n_envs}; use {found}.")
    within = [
        isinstance(number, int) and 0 <= number <= ring["total"]
        for number, ring in zip(manifest["final"], manifest["rings"], strict=True)
    ]
    names = [
        *(part["file"] for part in manifest["parts"]),
        *filter(None, [manifest["priorities"], (manifest.get("fixed") or {}).get("file")]),
    ]
    without_folder = all(Path(name).name == name for name in names)
    marked = re.fullmatch(r"[0-9a-f]+", manifest["mark"])
    if not (all(within) and isinstance(manifest["saves"], int) and without_folder and marked):
        raise ValueError("its counters are inconsistent")


def validate_ring(ring: Ring, state: dict[str, Any], stop: int) -> None:
    """Raise ValueError if a ring of this size cannot have this state.

    :param stop: number of transitions ever added, as the newest part has it.
    """
    own = vars(ring)
    types = state.keys() == own.keys() and all(type(state[name]) is type(own[name]) for name in own)
    if not (
        types
        and all(state[name] == own[name] for name in ("capacity", "n_rows", "n_episodes", "base_row", "base_slot"))
        and state["total"] == stop
        and 0 <= state["count"] <= min(stop, ring.capacity)
        and 0 <= state["dropped"] <= state["begun"]
        and -1 <= state["row"] - ring.base_row < ring.n_rows
        and 0 <= state["lap"] <= ring.n_rows
    ):
        raise ValueError("its counters are inconsistent")
