"""Fuzzing of damaged files and command lines: a few of the inputs that ``scripts/fuzz.py`` tries by the thousand."""

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fuzzing.command_lines import compose, random_command_line
from tests.support.fuzzing.workspace import Workspace

pytestmark = pytest.mark.slow

FEW = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
MORE = settings(FEW, max_examples=80)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.make(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(autouse=True)
def logging_enabled() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)  # Hydra disables it


@FEW
@given(rng=st.randoms(use_true_random=False))
def test_damaged_files_are_reported(workspace: Workspace, rng: Random) -> None:
    workspace.damage_and_read(rng)


@MORE
@given(rng=st.randoms(use_true_random=False))
def test_invalid_command_lines_are_reported(tmp_path: Path, rng: Random) -> None:
    compose(random_command_line(rng), tmp_path)


def test_undamaged_files_are_accepted(workspace: Workspace) -> None:
    """Otherwise the damage could be to files that no command reads."""
    for path, readers in workspace.readers.items():
        for reader in readers:
            printed = workspace.read_replaced(path, (workspace.folder / path).read_bytes(), reader)
            assert "damaged" not in printed
