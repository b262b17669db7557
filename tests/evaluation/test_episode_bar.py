"""The progress bar of `rlher enjoy` and `rlher evaluate`."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from rlher.evaluation.rollout import Episode, EpisodeBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("only_successes", [False, True])
def test_the_bar_counts_episodes_or_successes(only_successes: bool) -> None:
    progress = Progress(console=Console(file=io.StringIO()))
    bar, (task,) = EpisodeBar(progress, 2, only_successes), progress.tasks
    for success, is_over, expected in ((False, True, (1, 0)), (False, False, (1, 0)), (True, True, (2, 1))):
        bar.on_step(Episode(0, success=success), {}, is_over)
        assert task.completed == expected[only_successes]


@pytest.mark.parametrize("verb", ["enjoy", "evaluate"])
def test_a_terminal_shows_the_bar_and_stdout_only_the_results(
    rlher, run: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    done = rlher(verb, str(run), "--episodes", "2")
    assert done.code == 0
    assert "episode 2/2" in terminal.getvalue()
    assert done.out.count("\n") == (2 if verb == "enjoy" else 1)
    assert "\x1b" not in done.out


def test_a_pipe_shows_no_bar(rlher, run: Path) -> None:
    done = rlher("enjoy", str(run), "--episodes", "1")
    assert "episode" not in done.err
