"""The run folder: numbers, names, reading back, damage."""

import contextlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlher import runs
from rlher.config import BitFlippingConfig, EnvConfig, SACConfig, TrainConfig
from rlher.errors import UserError
from rlher.files import replacing, write_text


def config(logs: Path, env: EnvConfig | None = None) -> TrainConfig:
    return TrainConfig(algo=SACConfig(name="sac"), env=env or EnvConfig(id="FetchReach-v4"), logs=str(logs))


def test_two_runs_at_once_get_two_numbers(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = [run.folder for run in pool.map(lambda _: runs.create(config(tmp_path)), range(24))]
    assert sorted(int(folder.name.rpartition("_")[2]) for folder in folders) == list(range(1, 25))


def test_numbers_go_on_after_the_highest(tmp_path: Path) -> None:
    (tmp_path / "sac/FetchReach-v4_7").mkdir(parents=True)
    (tmp_path / "sac/FetchReach-v4_old").mkdir()
    assert runs.create(config(tmp_path)).folder.name == "FetchReach-v4_8"


@pytest.mark.parametrize("name", ["../../etc/x", "pkg.module:Env-v0", "/abs", "..", "a b", "ALE/Pong-v5"])
def test_no_name_leaves_the_logs(tmp_path: Path, name: str) -> None:
    folder = runs.create(config(tmp_path, EnvConfig(id=name))).folder
    assert folder.parent == tmp_path / "sac"
    assert folder.is_dir()


def test_the_config_comes_back_as_it_was(tmp_path: Path) -> None:
    given = config(tmp_path, BitFlippingConfig(id="BitFlipping-v0", n_bits=7, reward_range=[-1.0, None]))
    assert runs.find(str(runs.create(given).folder), "logs").config == given


def test_the_newest_trained_run_is_found(tmp_path: Path) -> None:
    first, second, empty = (runs.create(config(tmp_path)).folder for _ in range(3))
    for age, folder in ((200, second), (100, first)):
        (folder / "last_model.zip").touch()
        for entry in folder.iterdir():
            os.utime(entry, (1e9 - age, 1e9 - age))
    assert runs.find(None, str(tmp_path)).folder == first, "written last, though begun first"
    assert empty.exists()


DAMAGE = [
    "",
    "[1, 2]",
    "algo: {name: nonsense}\nenv: {}",
    "algo: 3\nenv: {}",
    "\x00\x01",
    "a: [",
    "algo: {name: sac}\nenv: {id: [}",
]


@pytest.mark.parametrize("text", DAMAGE)
def test_a_damaged_config_is_told(tmp_path: Path, text: str) -> None:
    folder = runs.create(config(tmp_path)).folder
    (folder / "config.yaml").write_text(text)
    with pytest.raises(UserError, match="damaged"):
        runs.find(str(folder), "logs")


def test_a_config_cannot_run_code(tmp_path: Path) -> None:
    folder = runs.create(config(tmp_path)).folder
    (folder / "config.yaml").write_text(f"!!python/object/apply:os.mkdir ['{tmp_path}/hacked']")
    with pytest.raises(UserError, match="damaged"):
        runs.find(str(folder), "logs")
    assert not (tmp_path / "hacked").exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    with pytest.raises(UserError, match="cannot write"):
        runs.create(config(tmp_path / "logs"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_text(path, "old")
    with contextlib.suppress(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half of the n")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


def test_meta_names_the_commit(tmp_path: Path) -> None:
    meta = json.loads((runs.create(config(tmp_path)).folder / "meta.json").read_text())
    assert meta["machine"]["cores"] >= 1
    assert meta["git"] is None or len(meta["git"]["commit"]) == 40
