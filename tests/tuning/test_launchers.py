"""Tasks of a Ray cluster, without one."""

from pathlib import Path

import pytest

from rlher.tuning.launchers import _call


@pytest.mark.parametrize("exists", [True, False])
def test_a_task_runs_in_the_folder_of_the_command_if_it_is_there(tmp_path: Path, monkeypatch, exists: bool) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "project"
    if exists:
        folder.mkdir()
    found = []
    assert _call(lambda: found.append(Path.cwd()), str(folder)) is None
    assert found == [folder if exists else tmp_path]
