"""The lines that a run prints."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import TINY

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


def test_a_log_file_shows_each_line_as_it_is_printed(tmp_path: Path) -> None:
    """Python buffers the output to a file by the page; a run would show nothing for hours."""
    words = ("train", "algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=4", *TINY, "total_timesteps=60")
    line = [sys.executable, "-c", COPY_LOG_WHILE_TRAINING, *words, "eval.freq=30"]
    with (tmp_path / "log.txt").open("w") as log:
        done = subprocess.run([*line, "threads=1"], stdout=log, stderr=subprocess.STDOUT, cwd=tmp_path)
    assert done.returncode == 0, (tmp_path / "log.txt").read_text()
    before_the_end = (tmp_path / "BitFlipping-v0_1.txt").read_text()
    assert "dqn on BitFlipping-v0" in before_the_end
    assert "30 steps  eval success" in before_the_end
