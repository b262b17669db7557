"""A small run, and a copy of it that somebody else may have changed."""

import contextlib
import shutil
from pathlib import Path

import pytest

from rlher.cli.main import main
from tests.support.fuzzing.checks import run_checked
from tests.support.fuzzing.workspace import RUN, TRAIN


@pytest.fixture(scope="package")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with contextlib.chdir(folder):
        run_checked(lambda: main([*TRAIN, "tensorboard=false"]), "training")
    return folder / RUN


@pytest.fixture
def untrusted(rlher, trained: Path) -> Path:
    """The folder ``run``, a run that was trained elsewhere, to be changed by a test."""
    return Path(shutil.copytree(trained, "run"))
