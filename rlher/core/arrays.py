"""Archives of NumPy arrays, read without pickle and without decompression."""

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np


@contextlib.contextmanager
def stored_arrays(file: Path | IO[bytes]) -> Iterator[Any]:
    """Open an uncompressed archive of arrays, as ``numpy.savez`` writes it; no array is larger than the file.

    :raises ValueError: it is compressed, and its arrays may be larger than the memory.
    """
    with zipfile.ZipFile(file) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError(f"{getattr(file, 'name', 'an archive of arrays')} is damaged: it is compressed.")
    with np.load(file, allow_pickle=False) as arrays:
        yield arrays
