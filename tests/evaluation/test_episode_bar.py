"""The progress bar of `rlher enjoy` and `rlher evaluate`."""

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from rlher.config.environment import EnvConfig
from rlher.evaluation.episode_bar import EpisodeBar
from rlher.evaluation.rollout import Episode


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_counts_episodes_steps_and_frames() -> None:
    progress = Progress(console=Console(file=io.StringIO()))
    bar = EpisodeBar(progress, 2, EnvConfig(max_episode_steps=20, action_repeat=2))
    (task,) = progress.tasks
    for length, is_over, completed in ((5, False, 0.5), (6, True, 1.0), (0, False, 1.0), (5, False, 1.5)):
        bar.on_step(Episode(0, length=length), {}, is_over)
        assert task.completed / task.total * 2 == completed
    assert task.description == "episode 2/2, step 5"
    bar.on_frame(3, 8)
    assert (task.description, task.completed, task.total) == ("writing frame 3/8", 3, 8)


@pytest.mark.parametrize("verb", ["enjoy", "evaluate"])
def test_a_terminal_shows_the_bar_and_stdout_only_the_results(
    rlher, run: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    done = rlher(verb, str(run), "--episodes", "2")
    assert done.code == 0
    assert re.search("writing frame" if verb == "enjoy" else "episode 2/2", terminal.getvalue())
    assert done.out.count("\n") == (2 if verb == "enjoy" else 1)
    assert "\x1b" not in done.out


def test_a_pipe_shows_no_bar(rlher, run: Path) -> None:
    done = rlher("enjoy", str(run), "--episodes", "1")
    assert "episode" not in done.err
