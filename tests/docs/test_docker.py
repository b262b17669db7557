"""The Dockerfile's steps without Docker: its script on the build context, then the program in a home of its own."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.documents import ROOT


def build_context(target: Path) -> Path:
    """Copy what .dockerignore leaves of the repository."""
    lines = (ROOT / ".dockerignore").read_text().split()
    left_out = shutil.ignore_patterns(*(line.removeprefix("**/") for line in lines if not line.startswith("!")))
    shutil.copytree(ROOT, target, ignore=left_out, symlinks=True)
    for line in lines:
        if line.startswith("!"):
            shutil.copytree(ROOT / line[1:], target / line[1:])
    return target


def link_dependencies(folder: Path) -> None:
    """Link the installed packages that pyproject.toml declares and those that they need, and nothing else."""
    folder.mkdir()
    todo = [("", line) for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]]
    for extra, line in todo:  # grows
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            package = distribution(needed.name)
            new = [(each, more) for each in ("", *needed.extras) for more in package.requires or ()]
            todo += [each for each in new if each not in todo]
            for name in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
                if not (folder / name).exists():
                    (folder / name).symlink_to(package.locate_file(name))


@pytest.mark.slow
def test_the_script_installs_a_program_that_trains(tmp_path: Path) -> None:
    """Of the declared dependencies, pip downloads what is not installed here in the version of constraints.txt."""
    link_dependencies(tmp_path / "installed")
    site = tmp_path / f"rlher/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    site.mkdir(parents=True)
    (site / "installed.pth").write_text(str(tmp_path / "installed"))
    context = build_context(tmp_path / "src")
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = [str(context / "scripts/docker_install.sh"), str(tmp_path / "rlher")]
    subprocess.run(script, env={**os.environ, "PATH": paths, "PIP_NO_COMPILE": "1"}, cwd=tmp_path, check=True)
    shutil.rmtree(context)

    (home := tmp_path / "home").mkdir()
    variables = {"PATH": f"{tmp_path}/rlher/bin:/usr/bin:/bin", "HOME": str(home), "USER": "rlher"}

    def rlher(*words: str) -> str:
        done = subprocess.run(["rlher", *words], env=variables, cwd=home, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    short = ("total_timesteps=300", "eval.freq=300", "eval.episodes=2", "eval.final_episodes=2")
    rlher("train", "algo=ddpg", "env=FetchReach-v4", *short)
    agents = json.loads(rlher("list", "agents", "--json"))["agents"]
    played = json.loads(rlher("enjoy", "--agent", agents[0]["agent"], "--episodes", "1", "--video", "a.mp4", "--json"))
    assert played
    assert (home / "a.mp4").stat().st_size > 1000
