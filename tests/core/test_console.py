"""Text for the terminal."""

import pytest

from rlher.core.console import can_redraw, text_table


@pytest.mark.parametrize(
    ("term", "terminal", "redraws"), [("xterm", True, True), ("dumb", True, False), ("xterm", False, False)]
)
def test_only_terminals_that_can_move_the_cursor_are_drawn_on(monkeypatch, term, terminal, redraws) -> None:
    monkeypatch.setenv("TERM", term)
    stream = type("Stream", (), {"isatty": lambda self: terminal})()
    assert can_redraw(stream) is redraws


HEADER = ["env", "agent", "final success"]
ROWS = [["Bits6", "dqn, future, n_sampled_goal=4", "100.0% [97.5%, 100.0%]"], ["Bits6", "dqn, n_sampled_goal=0", ""]]


@pytest.mark.parametrize("width", [46, 60, 100])
def test_no_word_is_cut_where_all_fit(width: int) -> None:
    lines = text_table(HEADER, ROWS, width).splitlines()
    assert max(map(len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    assert {"n_sampled_goal=4", "n_sampled_goal=0", "[97.5%,", "100.0%]"} <= words


def test_nothing_is_lost_where_words_do_not_fit() -> None:
    lines = text_table(HEADER, ROWS, 25).splitlines()
    assert max(map(len, lines)) <= 25
    assert "…" not in "".join(lines)
    assert text_table(["a"], [], 20).startswith("a")


def test_columns_are_aligned() -> None:
    header, line, *rows = text_table(HEADER, ROWS, 100).splitlines()
    assert set(line) == {"─"}
    assert {row.index("dqn") for row in rows} == {header.index("agent")}
