"""The best model of a run: its file, or its bytes in memory while the disk is full."""

import shutil
from pathlib import Path

from rlher.core.files import atomic_write
from rlher.runs import checkpoints


class BestModel:
    """The best model so far, kept in memory until it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten: bytes | None = None

    def set(self, content: bytes) -> None:
        """Replace the best model in memory; :meth:`write` writes it."""
        self._unwritten = content

    def write(self) -> None:
        """Write the model if that is still to do.

        :raises OSError: it cannot be written; it stays in memory for the next call.
        """
        if self._unwritten is not None:
            with atomic_write(self.path) as temporary:
                temporary.write_bytes(self._unwritten)
            self._unwritten = None

    def read(self) -> bytes:
        """Return the content of its file."""
        return self.path.read_bytes() if self._unwritten is None else self._unwritten

    def save_to(self, checkpoint: Path) -> None:
        """Add the model to a checkpoint, if there is a model yet.

        :raises OSError: it cannot be written.
        """
        self.write()
        if self.path.exists():
            checkpoints.link(self.path, checkpoint / self.path.name)

    def restore_from(self, checkpoint: Path) -> None:
        """Replace the file by the checkpoint's: a model found after the checkpoint may not be found again."""
        saved = checkpoint / self.path.name
        if not saved.exists():
            self.path.unlink(missing_ok=True)
            return
        with atomic_write(self.path) as temporary:
            shutil.copyfile(saved, temporary)
