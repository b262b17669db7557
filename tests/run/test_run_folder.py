"""Run folders: their numbers and names, reading the config back, damaged files."""

import contextlib
import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest

from rlher.config.algorithms import SACConfig
from rlher.config.environment import EnvConfig
from rlher.config.training import RunConfig
from rlher.core.errors import DamagedFile, UserError
from rlher.core.writing import atomic_write, write_text
from rlher.run import lookup, run_folder


def config(logs: Path, env: EnvConfig | None = None) -> RunConfig:
    return RunConfig(algo=SACConfig(name="sac"), env=env or EnvConfig(id="FetchReach-v4"), logs=str(logs))


def new_run(logs: Path, env: EnvConfig | None = None) -> run_folder.RunFolder:
    values = config(logs, env)
    return run_folder.create(values, values, "rlher train")


def test_concurrent_threads_get_different_numbers(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = [run.folder for run in pool.map(lambda _: new_run(tmp_path), range(24))]
    assert sorted(int(folder.name.rpartition("_")[2]) for folder in folders) == list(range(1, 25))


def test_the_number_is_the_highest_plus_one(tmp_path: Path) -> None:
    (tmp_path / "sac/FetchReach-v4_7").mkdir(parents=True)
    (tmp_path / "sac/FetchReach-v4_old").mkdir()
    assert new_run(tmp_path).folder.name == "FetchReach-v4_8"


@pytest.mark.parametrize("name", ["../../etc/x", "pkg.module:Env-v0", "/abs", "..", "a b", "ALE/Pong-v5"])
def test_environment_ids_stay_within_the_logs_folder(tmp_path: Path, name: str) -> None:
    folder = new_run(tmp_path, EnvConfig(id=name)).folder
    assert folder.parent == tmp_path / "sac"
    assert folder.is_dir()


def test_the_newest_trained_run_is_found(tmp_path: Path) -> None:
    first, second, empty = (new_run(tmp_path).folder for _ in range(3))
    for age, folder in ((200, second), (100, first)):
        (folder / "last_model.zip").touch()
        for entry in folder.iterdir():
            os.utime(entry, (1e9 - age, 1e9 - age))
    assert lookup.open_run(None, str(tmp_path)).folder == first, "its model was written last, although it started first"
    assert empty.exists()
    (new_run(tmp_path, EnvConfig(id="FetchReach-v4_2")).folder / "last_model.zip").touch()
    assert lookup.open_run("FetchReach-v4", str(tmp_path)).folder == first, "the newest run is of another environment"


@pytest.mark.parametrize("steps", [(), (40, 80, 120)])
def test_a_missing_model_lists_the_models_there_are(tmp_path: Path, steps: tuple[int, ...]) -> None:
    run = new_run(tmp_path)
    (run.folder / "models").mkdir()
    for count in steps:
        (run.folder / f"models/{count}.zip").touch()
        assert run.resolve_model_name(str(count)) == str(count)
    with pytest.raises(UserError) as caught:
        run.resolve_model_name("70")
    named = ("80", "40") if steps else ("eval.keep_models=true",)
    assert all(name in str(caught.value) for name in named)


def test_the_config_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """Also texts that look like numbers; a config that is too large to be read again is refused."""
    values = replace(config(tmp_path), algo=SACConfig(name="sac", ent_coef="1e-3", learning_rate=1e-5))
    run = run_folder.create(values, values, "rlher train")
    assert run_folder.read_config(run.folder) == values
    large = replace(values, env=EnvConfig(id="FetchSlide-v4", kwargs={"text": "x" * 100_000}))
    with pytest.raises(UserError):
        run_folder.create(large, large, "rlher train")
    assert [folder.name for folder in (tmp_path / "sac").iterdir()] == ["FetchReach-v4_1"]


DAMAGE = [
    "",
    "[1, 2]",
    "algo: 3\nenv: {}",
    "\x00\x01",
    "a: [",
    "algo: {name: sac}\nenv: {id: [}",
    "[" * 50_000,
    "algo: {name: sac}\nseed: " + "9" * 5000,
    "algo: {name: sac}\nseed: 0x" + "f" * 5000,
    "algo: &a {name: sac, kwargs: *a}\nenv: {}",
    "!!python/object/apply:os.mkdir [hacked]",
    "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghijklmnopq")),
]


@pytest.mark.parametrize("text", DAMAGE)
def test_a_damaged_config_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """No code in it is run."""
    monkeypatch.chdir(tmp_path)
    folder = new_run(tmp_path).folder
    (folder / "config.yaml").write_text(text)
    with pytest.raises(DamagedFile) as caught:
        lookup.open_run(str(folder), "logs")
    assert caught.value.path == folder / "config.yaml"
    assert not Path("hacked").exists()


def test_an_unreadable_config_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "read_yaml", Mock(side_effect=PermissionError(errno.EACCES, "denied")))
    with pytest.raises(UserError) as caught:
        run_folder.read_config(tmp_path)
    assert not isinstance(caught.value, DamagedFile)


def test_a_run_of_a_missing_plugin_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("algo: {name: mine, action_noise: 0.2}\nenv: {id: FetchReach-v4}")
    with pytest.raises(UserError, match="algo=mine") as caught:
        run_folder.read_config(tmp_path)
    assert not isinstance(caught.value, DamagedFile)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_text(path, "old")
    with contextlib.suppress(RuntimeError), atomic_write(path) as temporary:
        temporary.write_text("incomplete")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


def test_a_file_may_have_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 251}.txt"
    write_text(path, "text")
    assert path.read_text() == "text"
