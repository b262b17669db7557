"""Fixtures of the tuning tests: a finished search, and a PostgreSQL server."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import Postgres, binaries
from tests.support.small_search import OPTIMIZE, SMALL, STUDY, run_optimize
from tests.support.terminal import run_on_terminal


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the working folder of a finished search; its output is in files there.

    It ran on a terminal at first, and its re-runs failed.
    """
    folder = tmp_path_factory.mktemp("optimize")
    (reruns := folder / STUDY / "reruns").parent.mkdir(parents=True)
    reruns.touch()
    code, shown = run_on_terminal([*OPTIMIZE, *SMALL, "--n-trials", "3", "--workers", "2"], folder)
    assert code == 1, shown
    (folder / "terminal").write_text(shown)
    reruns.unlink()
    done = run_optimize(folder, "--n-trials", "3", "--workers", "2")
    (folder / "stdout").write_text(done.out)
    (folder / "stderr").write_text(done.err)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    if (programs := binaries()) is None:
        assert "CI" not in os.environ, "CI installs PostgreSQL"
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    server = Postgres(Path(tempfile.mkdtemp(prefix="rlher-pg-")), programs)
    yield server
    server.stop()
