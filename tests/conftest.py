import contextlib
import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def rlher(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Outcome]:
    """Run a command line in this process, in an empty folder."""
    from rlher.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)

    def run(*words: str) -> Outcome:
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as stop:  # argparse: --help, --cfg, wrong choice
            code = int(stop.code or 0)
        logging.disable(logging.NOTSET)
        return Outcome(code, *capsys.readouterr())

    return run


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Put a small file system of its own in place of a folder; where that is not permitted the test is skipped."""
    try:
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        subprocess.run(mount, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


TINY = (
    "algo.batch_size=16",
    "algo.net_arch=[16]",
    "algo.learning_starts=40",
    "eval.episodes=2",
    "eval.final_episodes=4",
    "tensorboard=false",
)
"""Overrides that make a training run a matter of a second."""
