"""Full disks and file size limits: existing files stay intact, and the error is reported without a traceback."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlher.envs.bit_flipping import BitFlippingEnv
from tests.conftest import TINY, mounted

RUN = (
    "train",
    "algo=dqn",
    "env=BitFlipping-v0",
    "env.n_bits=4",
    "recipe=null",
    *TINY,
    "total_timesteps=200",
    "eval.freq=40",
)
RUN = (*RUN, "tensorboard=true")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted(folder, "size=500k"):
        yield folder


def fill(disk: Path) -> None:
    with (disk / "rubbish").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass


def at_steps(monkeypatch: pytest.MonkeyPatch, folder: Path, actions_by_step: dict[int, Callable[[], None]]) -> None:
    """Call functions at steps of the environment, in training and evaluation, counted once the folder exists."""
    step, taken = BitFlippingEnv.step, []

    def stepped(self, action):
        if folder.exists():
            taken.append(None)
            actions_by_step.get(len(taken), int)()
        return step(self, action)

    monkeypatch.setattr(BitFlippingEnv, "step", stepped)


def rows(run: Path) -> list[int]:
    with (run / "evaluations.csv").open() as file:
        return [int(row["timesteps"]) for row in csv.DictReader(file)]


def test_a_disk_that_fills_up_in_training_leaves_existing_files_intact(rlher, disk, monkeypatch) -> None:
    run = disk / "logs/dqn/BitFlipping-v0_1"
    before = {}

    def overflow() -> None:
        before.update({path: path.read_bytes() for path in run.iterdir() if path.suffix in (".zip", ".yaml", ".json")})
        fill(disk)

    at_steps(monkeypatch, run, {100: overflow})
    done = rlher(*RUN, f"logs={disk / 'logs'}")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "No space left on device" in done.err
    for name in ("the last model", "result.json"):
        assert f"{name} could not be written" in done.err
    assert done.err.count("evaluations.csv cannot be written") >= 2
    assert run / "best_model.zip" in before
    for path, content in before.items():
        assert path.read_bytes() == content
    assert rows(run) == [40, 80]
    assert not list(run.glob(".*")), "a temporary file was left behind"
    assert rlher("evaluate", str(run), "--episodes", "2").code == 0


def test_a_run_finishes_if_space_is_freed_in_time(rlher, disk, monkeypatch) -> None:
    run = disk / "logs/dqn/BitFlipping-v0_1"
    at_steps(monkeypatch, run, {100: lambda: fill(disk), 180: (disk / "rubbish").unlink})
    done = rlher(*RUN, f"logs={disk / 'logs'}")
    assert done.code == 0, done.err
    assert "cannot be written" in done.err
    assert rows(run) == [40, 80, 120, 160, 200]
    assert json.loads((run / "result.json").read_text())["status"] == "finished"
    with (run / "progress.csv").open() as file:
        assert list(csv.DictReader(file))[-1]["eval/success_rate"], "the log is continued"


def test_a_full_disk_is_refused_before_training(rlher, disk) -> None:
    fill(disk)
    done = rlher(*RUN, f"logs={disk / 'logs'}")
    assert done.code == 2
    assert "No space left on device" in done.err
    assert "Traceback" not in done.err


SMALL_FILES = """
import resource, sys
import rlher.training.trainer
from rlher.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (4000,) * 2)
sys.exit(main(sys.argv[1:]))
"""


def test_a_file_size_limit_below_the_size_of_a_model(tmp_path) -> None:
    line = [sys.executable, "-c", SMALL_FILES, *RUN, "threads=1"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "the last model could not be written (File too large)" in done.stderr
    assert not list(tmp_path.rglob("*_model.zip"))
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    run = tmp_path / "logs/dqn/BitFlipping-v0_1"
    assert rows(run) == [40, 80, 120, 160, 200]
    assert json.loads((run / "result.json").read_text())["status"] == "failed"
    assert not list(run.glob(".*")), "a temporary file was left behind"


@pytest.mark.parametrize("words", [("list", "envs"), ("train", "--help"), ("--version",)])
def test_a_full_stdout_is_reported(words) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rlher.cli.main", *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == "rlher: cannot read or write the output: No space left on device.\n"
