"""Archives of NumPy arrays, read without pickle and without decompression."""

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np


@contextlib.contextmanager
def stored_arrays(file: Path | IO[bytes]) -> Iterator[Any]:
    """Open an archive of arrays as NumPy's ``savez`` writes them: as they are, so that none is larger than its file.

    :raises ValueError: it is compressed, and may be made to fill the memory of who reads it.
    """
    with zipfile.ZipFile(file) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError(f"{getattr(file, 'name', 'an archive of arrays')} is damaged: it is compressed.")
    with np.load(file, allow_pickle=False) as arrays:
        yield arrays
