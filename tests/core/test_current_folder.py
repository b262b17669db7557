"""Nothing is loaded from the current folder."""

import os
import sys
from pathlib import Path

import pytest

from rlher.core.current_folder import ignore_current_folder


def test_neither_modules_nor_compiled_code_of_a_later_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Notebooks search the current folder, and torch unpickles what is in its cache."""
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    started = os.getcwd()
    ignore_current_folder()
    monkeypatch.chdir(tmp_path)
    assert sys.path[0] == started
    assert Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).is_relative_to(Path.home())


def test_a_user_without_a_home_searches_no_later_folder_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(Path, "home", no_home)
    ignore_current_folder()
    assert "" not in sys.path
