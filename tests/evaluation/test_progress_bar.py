"""The progress bar of `rlher enjoy` and `rlher evaluate`."""

import io
import sys
from pathlib import Path

import pytest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("verb", ["enjoy", "evaluate"])
def test_a_terminal_shows_the_bar_and_stdout_only_the_results(
    rlher, run: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    done = rlher(verb, str(run), "--episodes", "2")
    assert done.code == 0
    assert "2/2" in terminal.getvalue()
    assert done.out.count("\n") == (2 if verb == "enjoy" else 1)
    assert "\x1b" not in done.out


def test_a_pipe_shows_no_bar(rlher, run: Path) -> None:
    done = rlher("enjoy", str(run), "--episodes", "1")
    assert "episode" not in done.err
