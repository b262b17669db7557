"""No command runs code of the current folder, in any of the processes that it, or a library, starts."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.conftest import TINY

pytestmark = pytest.mark.slow

RLHER = Path(sys.executable).with_name("rlher")
MARKS = "executed"
EVIL = "import sys\nwith open({!r}, 'a') as file:\n    print(__name__, sys.orig_argv, file=file)\n"
EVIL_LIBRARY = """#include <stdio.h>
__attribute__((constructor)) static void run(void) { fclose(fopen("%s", "a")); }
"""
FETCH = ("algo=ddpg", "env=FetchReach-v4", "recipe=null", *TINY, "total_timesteps=120", "threads=1")
FETCH += ("env.max_episode_steps=10",)  # drawing a step is slow
BITS = ("algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null", *TINY, "total_timesteps=60")
SEARCH = ("--n-trials", "1", "--n-seeds", "1", "--rerun-best", "1", "--rerun-seeds", "2")

PROGRAM = """import sys
from rlher.cli.main import main
sys.exit(max(main(words.split()) for words in sys.argv[1:]))
"""
"""Runs several command lines; torch and others need seconds to start."""

VIDEO = "enjoy . --video v.mp4 --episodes 1"
TOGETHER = {
    "MuJoCo": ("check env=FetchReach-v4", "evaluate . --episodes 1", VIDEO, "export . --format onnx"),
    "other packages": ("plot .", "report . --output r.html", "list envs", "check env=parking-v0"),
    "PyBullet": ("enjoy --agent ddpg-PandaReach-v3 --video v.mp4 --episodes 1",),
}
"""Command lines that one process runs."""

ALONE = {
    "resume, compiled": ("train", "--resume", ".", "more_timesteps=60", "engine.compile=on"),
    "train": ("train", *FETCH, "vec_env=subproc", "eval.workers=1", "record=true"),
    "sweep with Ray": ("train", "-m", *BITS, "seed=0,1", "launcher=ray"),
    "optimize": ("optimize", *BITS, *SEARCH),
    "collect": ("collect", ".", "--episodes", "1", "--output", "demos/reach-v0"),
}
"""Commands that start other processes, or whose program counts."""


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stranger's run, with a module for every name that Python or a package may import, and some libraries."""
    folder = tmp_path_factory.mktemp("trained")
    subprocess.run([RLHER, "train", *FETCH, "logs=logs"], cwd=folder, check=True, capture_output=True)
    run = folder / "logs/ddpg/FetchReach-v4_1"
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("compile: 'off'", "compile: 'on'"))
    others = {"rlher", "sitecustomize", "usercustomize", "hydra_plugins/evil"}
    for name in sys.stdlib_module_names | set(metadata.packages_distributions()) | others:
        file = run / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(EVIL.format(str(run / MARKS)))
    if compiler := shutil.which("cc"):
        (folder / "evil.c").write_text(EVIL_LIBRARY % (run / MARKS))
        for name in ("glfw", "glfw3", "EGL", "GL", "OSMesa"):
            subprocess.run([compiler, "-shared", "-fPIC", "-o", run / f"lib{name}.so", folder / "evil.c"], check=True)
    return run


@pytest.fixture
def folder(poisoned: Path, tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(poisoned, tmp_path / "run"))
    (poisoned / MARKS).unlink(missing_ok=True)


@pytest.fixture
def run(poisoned: Path, folder: Path) -> Callable[..., str]:
    """Run a command in the stranger's folder, check that nothing of it was executed, and return its stdout."""

    def run(*words: str | Path, program: str | Path = RLHER, **environment: str) -> str:
        where = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "PYTHONSAFEPATH")}
        where |= {"TORCHINDUCTOR_CACHE_DIR": str(folder.parent / "inductor"), **environment}
        words = (program, *words)
        done = subprocess.run(words, cwd=folder, env=where, capture_output=True, text=True, timeout=300)
        marks = poisoned / MARKS
        assert not marks.exists(), marks.read_text()
        if environment.get("MUJOCO_GL") and "does not work here" in done.stderr:
            pytest.skip("this machine lacks the OpenGL library; nothing of the folder was executed")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("lines", TOGETHER.values(), ids=TOGETHER)
def test_commands_of_one_process(run, lines: tuple[str, ...], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run(program, *lines, program=sys.executable)


@pytest.mark.parametrize("opengl", ["glfw", "egl", "osmesa"])
def test_renderers(run, opengl: str) -> None:
    run(*VIDEO.split(), MUJOCO_GL=opengl)


@pytest.mark.parametrize("words", ALONE.values(), ids=ALONE)
def test_commands(run, words: tuple[str, ...]) -> None:
    run(*words)


def test_tab_completion(run) -> None:
    words = "rlher train algo=d"
    assert "algo=dqn" in run("-sc", "query=bash", COMP_LINE=words, COMP_POINT=str(len(words)))


def test_the_script_of_an_export(run) -> None:
    run("export", ".")
    assert "success" in run("-P", "export/play.py", program=sys.executable)
