"""Text for the terminal."""

import pytest

from rlher.core.console import can_redraw


@pytest.mark.parametrize(
    ("term", "terminal", "redraws"), [("xterm", True, True), ("dumb", True, False), ("xterm", False, False)]
)
def test_only_terminals_that_can_move_the_cursor_are_drawn_on(monkeypatch, term, terminal, redraws) -> None:
    monkeypatch.setenv("TERM", term)
    stream = type("Stream", (), {"isatty": lambda self: terminal})()
    assert can_redraw(stream) is redraws
