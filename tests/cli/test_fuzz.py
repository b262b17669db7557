"""A few of the inputs that ``scripts/fuzz.py`` tries by the thousand."""

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import fuzzing

pytestmark = pytest.mark.slow

FEW = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
MORE = settings(FEW, max_examples=80)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> fuzzing.Workspace:
    return fuzzing.Workspace.make(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(autouse=True)
def logging_enabled() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)  # Hydra disables logging


@FEW
@given(rng=st.randoms(use_true_random=False))
def test_a_damaged_file_ends_with_a_message(workspace: fuzzing.Workspace, rng: Random) -> None:
    path = workspace.file(rng)
    content = fuzzing.damaged(rng, path, workspace)
    workspace.try_damage(path, content, rng.choice(workspace.readers[path]))


@MORE
@given(rng=st.randoms(use_true_random=False))
def test_a_random_command_line_ends_with_a_message(tmp_path: Path, rng: Random) -> None:
    fuzzing.try_command_line(fuzzing.command_line(rng), tmp_path)


def test_undamaged_files_are_read(workspace: fuzzing.Workspace) -> None:
    """Otherwise the other test would damage files that no command reads."""
    for path, readers in workspace.readers.items():
        for reader in readers:
            output = workspace.try_damage(path, (workspace.folder / path).read_bytes(), reader)
            assert "damaged" not in output
