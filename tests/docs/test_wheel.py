"""The wheel has everything that a user needs, without the checkout."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def run(*words: str | Path) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_installed_wheel_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", REPOSITORY)
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    binaries, packages = (
        tmp_path / "venv/bin",
        tmp_path / "venv/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}",
    )
    (wheel,) = (tmp_path / "dist").iterdir()
    run(sys.executable, "-m", "pip", "--python", binaries / "python", "install", "--no-deps", wheel)
    # The other packages are those of the tests; a checkout that is installed there as editable is not seen.
    (packages / "site-packages/others.pth").write_text("\n".join({*sysconfig.get_paths().values(), *sys.path}))
    assert run(binaries / "python", "-P", "-c", "import rlher; print(rlher.__file__)").startswith(str(tmp_path))
    run(binaries / "rlher", "train", "algo=ddpg", "env=FetchReach-v4", "threads=1")
    assert json.loads(run(binaries / "rlher", "evaluate", "--json"))["success_rate"] >= 0.9
