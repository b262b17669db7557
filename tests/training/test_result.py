"""The lines that a run prints."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.support.tiers import slow_except

WAIT_AFTER_SECOND_EVALUATION = """
import sys
from rlher.cli.main import main
from rlher.training.callbacks.progress import ProgressCallback

sys.stderr.reconfigure(line_buffering=False, write_through=False)
show = ProgressCallback._show_new_evaluation

def show_and_wait(self):
    show(self)
    if self._shown_evaluations == 2:
        sys.stdin.readline()

ProgressCallback._show_new_evaluation = show_and_wait
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("progress", slow_except(["true"], ["true", "false"]))
def test_a_pipe_shows_evaluations_while_the_run_goes_on(tmp_path: Path, progress: str) -> None:
    words = ("train", "algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", *TINY, "total_timesteps=90", "eval.freq=30")
    line = [sys.executable, "-c", WAIT_AFTER_SECOND_EVALUATION, *words, "threads=1", f"progress={progress}"]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with subprocess.Popen(line, cwd=tmp_path, text=True, **pipes) as process:
        killed = threading.Timer(30, process.kill)
        killed.start()
        try:
            shown = next(row for row in process.stderr if "60 steps  eval success" in row)
            assert process.poll() is None, "the run waits"
            process.communicate("")
        finally:
            killed.cancel()
    assert shown
    assert process.returncode == 0


COPY_LOG_WHILE_TRAINING = """
import sys
from pathlib import Path
from rlher.cli.main import main
from rlher.training.trainer import Trainer

for stream in (sys.stdout, sys.stderr):
    stream.reconfigure(line_buffering=False)
evaluate_final = Trainer._evaluate_final

def copy_log(self):
    Path(f"{self.run.folder.name}.txt").write_text(Path("log.txt").read_text())
    evaluate_final(self)

Trainer._evaluate_final = copy_log
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("progress", slow_except(["true"], ["true", "false"]))
def test_a_log_file_shows_each_line_as_it_is_printed(tmp_path: Path, progress: str) -> None:
    """Python buffers the output to a file by the page; a run would show nothing for hours."""
    words = ("train", "algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", *TINY, "total_timesteps=60")
    line = [sys.executable, "-c", COPY_LOG_WHILE_TRAINING, *words, "eval.freq=30", f"progress={progress}"]
    with (tmp_path / "log.txt").open("w") as log:
        done = subprocess.run([*line, "threads=1"], stdout=log, stderr=subprocess.STDOUT, cwd=tmp_path)
    assert done.returncode == 0, (tmp_path / "log.txt").read_text()
    before_the_end = (tmp_path / "BitFlipping-v0_1.txt").read_text()
    assert "dqn on BitFlipping-v0" in before_the_end
    assert "30 steps  eval success" in before_the_end
