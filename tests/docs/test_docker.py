"""The Dockerfile's steps without Docker: its script on the build context, then the program in a home of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_the_script_installs_a_program_that_trains(tmp_path: Path) -> None:
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

    trained = rlher("train", "algo=ddpg", "env=FetchReach-v4", "total_timesteps=1200", "--json")
    assert json.loads(trained)["success_rate"] >= 0.9
    agents = json.loads(rlher("list", "agents", "--json"))["agents"]
    rlher("enjoy", "--agent", agents[0]["agent"], "--episodes", "1", "--video", "film.mp4")
    assert (home / "film.mp4").stat().st_size > 1000
    rlher("report")
