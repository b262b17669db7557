"""Text for the terminal."""

import pytest

from rlher.core.console import can_redraw, collected_warnings, warn


@pytest.mark.parametrize(
    ("term", "terminal", "redraws"), [("xterm", True, True), ("dumb", True, False), ("xterm", False, False)]
)
def test_only_terminals_that_can_move_the_cursor_are_drawn_on(monkeypatch, term, terminal, redraws) -> None:
    monkeypatch.setenv("TERM", term)
    stream = type("Stream", (), {"isatty": lambda self: terminal})()
    assert can_redraw(stream) is redraws


def test_collected_warnings_have_no_password(capsys: pytest.CaptureFixture) -> None:
    with collected_warnings() as messages:
        warn("cannot open postgresql://user:SECRET@host/db.")
    assert messages == ["cannot open postgresql://***@host/db."]
    assert "SECRET" not in capsys.readouterr().err
