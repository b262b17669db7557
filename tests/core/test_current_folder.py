"""Nothing is loaded from the current folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlher.core.current_folder import forbid_code_from_current_folder


@pytest.mark.parametrize("use", ["rlher.agents()", "import rlher.algos"])
def test_neither_modules_nor_compiled_code_of_a_later_folder(tmp_path: Path, use: str) -> None:
    """Notebooks search the current folder, and torch unpickles what is in its cache."""
    (tmp_path / "omegaconf.py").write_text("raise SystemExit(3)")
    code = f"import os, rlher; os.chdir({str(tmp_path)!r}); {use}; print(os.environ['TORCHINDUCTOR_CACHE_DIR'])"
    names = ("PYTHONSAFEPATH", "TORCHINDUCTOR_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd="/", capture_output=True, text=True)
    assert Path(done.stdout.strip()).is_relative_to(Path.home()), done.stderr


def test_a_user_without_a_home_searches_no_later_folder_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(Path, "home", no_home)
    forbid_code_from_current_folder()
    assert "" not in sys.path
