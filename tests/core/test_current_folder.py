"""Nothing is loaded from the current folder."""

import os
import tempfile
from pathlib import Path

import pytest

from rlher.core.current_folder import ignore_current_folder


def test_a_current_folder_that_is_the_temporary_one_has_no_compile_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python falls back to the current folder where no other can be written; torch unpickles what is in its cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    ignore_current_folder()
    assert not Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).is_relative_to(tmp_path)
