"""Full disks and file size limits: existing files stay intact, and the error is reported without a traceback."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from same_run import differences

from rlher.training.best_model import BestModel
from tests.conftest import TINY, mounted
from tests.support.tiers import slow_except

ENV = ("env=BitFlipping-v0", "env.kwargs.n_bits=4")
RUN = ("train", "algo=dqn", *ENV, "recipe=null", *TINY, "total_timesteps=200", "eval.freq=40")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted(folder, "size=1m"):
        yield folder


def fill(disk: Path, free: int = 0) -> None:
    """Leave about this many bytes of a disk free."""
    with (disk / "rubbish").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            file.truncate(max(file.tell() - free, 0))


def rows(run: Path) -> list[int]:
    return list(pd.read_csv(run / "evaluations.csv").timesteps)


def test_a_disk_that_fills_up_in_training_leaves_existing_files_intact(rlher, disk, at_env_steps) -> None:
    run = disk / "logs/dqn/BitFlipping-v0_1"
    before = {}

    def overflow() -> None:
        before.update({path: path.read_bytes() for path in run.iterdir() if path.suffix in (".zip", ".yaml", ".json")})
        fill(disk)

    at_env_steps(run, {100: overflow})
    done = rlher(*RUN, f"logs={disk / 'logs'}")
    assert done.code == 1
    assert "last_model.zip" not in done.err.splitlines()[-1], "only the best model was saved"
    assert run / "best_model.zip" in before
    for path, content in before.items():
        assert path.read_bytes() == content
    assert rows(run) == [40, 80]
    assert not list(run.glob(".*")), "a temporary file was left behind"
    assert rlher("evaluate", str(run), "--episodes", "2").code == 0


@pytest.mark.slow
def test_a_run_on_a_full_disk_is_resumed_exactly(rlher, disk, at_env_steps) -> None:
    run = disk / "logs/dqn/BitFlipping-v0_1"
    at_env_steps(run, {20: lambda: fill(disk, 30_000)})
    words = (*RUN, "checkpoint.freq=30", "tensorboard=true")
    done = rlher(*words, f"logs={disk / 'logs'}")
    assert (done.code, "No space left on device" in done.err) == (1, True)
    assert "Traceback" not in done.err
    (disk / "rubbish").unlink()
    assert rlher("train", "--resume", str(run)).code == 0
    assert rlher(*words).code == 0
    assert differences(run, Path("logs/dqn/BitFlipping-v0_1")) == []


@pytest.mark.slow
def test_other_commands_on_a_full_disk(rlher, disk: Path) -> None:
    assert rlher(*RUN).code == 0
    fill(disk)
    for words in ("report --output DISK.html", "plot --output DISK.pdf", "enjoy --video DISK.mp4"):
        done = rlher(*words.replace("DISK", f"{disk}/a").split(), "logs/dqn/BitFlipping-v0_1")
        assert (done.code, str(disk) in done.err, [*disk.glob("a.*")]) == (2, True, [])
    assert rlher("optimize", *RUN[1:-1], f"logs={disk}", "n_trials=1").code in (1, 2)


def test_a_read_only_run_is_read(rlher, disk: Path) -> None:
    assert rlher(*RUN, f"logs={disk}").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    codes = {"evaluate --episodes=1": 0, "compare": 0, "train more_timesteps=9 --resume": 1, "export": 2}
    run = str(disk / "dqn/BitFlipping-v0_1")
    assert {words: rlher(*words.split(), run).code for words in codes} == codes


def shell(tmp_path: Path, redirection: str, *words: str) -> subprocess.CompletedProcess:
    """Run a command of rlher in a shell, with a redirection."""
    command = f"{shlex.join([sys.executable, '-m', 'rlher', *words])} {redirection}"
    return subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path)


@pytest.mark.parametrize("words", [("list", "envs"), ("train", "--help")])
def test_a_full_stdout_is_reported(tmp_path: Path, words: tuple) -> None:
    done = shell(tmp_path, ">/dev/full", *words)
    assert (done.returncode, "No space left on device" in done.stderr, done.stderr.count("\n")) == (1, True, 1)


def test_nothing_is_said_if_the_reader_of_stdout_has_ended(tmp_path: Path) -> None:
    assert shell(tmp_path, "| true", "list", "envs").stderr == ""


@pytest.mark.parametrize("call", slow_except([3], [1, 2, 3]))
def test_a_best_model_that_cannot_be_written_fails_the_run(rlher, monkeypatch, call: int) -> None:
    """It is resumed exactly, whether that happens in an evaluation or, with the last call, in the end."""
    calls, write = [], BestModel.write

    def refusing(self: BestModel) -> None:
        calls.append(self)
        if len(calls) == call:
            raise OSError(28, "No space left on device")
        write(self)

    with monkeypatch.context() as patch:
        patch.setattr(BestModel, "write", refusing)
        assert rlher(*RUN).code == 1
    folder = Path("logs/dqn/BitFlipping-v0_1")
    assert json.loads((folder / "result.json").read_text())["status"] == "failed"
    assert rlher("train", "--resume", str(folder)).code == 0
    assert rlher(*RUN).code == 0
    assert differences(folder, Path("logs/dqn/BitFlipping-v0_2")) == []
