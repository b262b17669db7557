"""The file of a run's best model, which a disk that is full for a while does not cost the run."""

import shutil
from pathlib import Path

from rlher.core.files import atomic_write
from rlher.runs import checkpoint_store


class BestModel:
    """The best model so far: in its file or, where the disk did not take it, in memory until it does.

    :param path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten: bytes | None = None

    def take(self, content: bytes) -> None:
        """Take a better one; :meth:`write` is to follow."""
        self._unwritten = content

    def write(self) -> None:
        """Write what is not written yet.

        :raises OSError: the disk does not take it; it is kept until the next call.
        """
        if self._unwritten is not None:
            with atomic_write(self.path) as temporary:
                temporary.write_bytes(self._unwritten)
            self._unwritten = None

    def save(self, folder: Path) -> None:
        """Put it into a checkpoint, where there is one.

        :raises OSError: as :meth:`write`.
        """
        self.write()
        if self.path.exists():
            checkpoint_store.link(self.path, folder / self.path.name)

    def restore(self, folder: Path) -> None:
        """Take it from a checkpoint: a later one belongs to a future that may not come again."""
        kept = folder / self.path.name
        if not kept.exists():
            self.path.unlink(missing_ok=True)
            return
        with atomic_write(self.path) as temporary:
            shutil.copyfile(kept, temporary)
