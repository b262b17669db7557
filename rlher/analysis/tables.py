"""A table of numbers, and its text as aligned columns, Markdown, LaTeX or CSV."""

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from rlher.core.console import UNLIMITED_WIDTH, csv_text, text_table

MISSING = "–"

LATEX = str.maketrans(
    {char: f"\\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", MISSING: "--"}
)
"""Escapes of the characters that have a meaning in LaTeX."""

NumbersRow = dict[Any, Any]
"""Numbers of a row, by column."""
Cells = dict[str, str]
"""Texts of a row, by the header of their column."""


def _markdown(cell: str) -> str:
    """Return a text without HTML and links: names come from run folders, which may be somebody else's."""
    return html.escape(cell, quote=False).replace("|", r"\|").replace("](", r"]\(")


def _latex(cell: str) -> str:
    """Return a text that LaTeX prints as it is: names come from run folders, which may be somebody else's."""
    start = "{}" if cell.startswith("[") else ""  # after a line break, a bracket would begin a length
    return start + cell.translate(LATEX)


@dataclass(frozen=True)
class Table:
    """A table of numbers that can be printed.

    :param title: heading, may be empty.
    :param to_cells: returns the texts of a row of numbers.
    :param name: for the label in LaTeX.
    """

    title: str
    numbers: pd.DataFrame
    to_cells: Callable[[NumbersRow], Cells]
    name: str

    @property
    def cells(self) -> pd.DataFrame:
        """The table as text, without columns that have no value in any row."""
        cells = pd.DataFrame([self.to_cells(row) for row in self.numbers.to_dict("records")])
        return cells.loc[:, (cells != MISSING).any()]

    def format(self, name: str, width: int = UNLIMITED_WIDTH) -> str:
        """Return the table as ``text``, ``markdown``, ``latex``, or its numbers as ``csv``.

        :param width: characters per line of a text; a wider table wraps its cells.
        """
        if self.numbers.empty:
            return ""
        if name == "csv":
            return csv_text(self.numbers).rstrip()
        cells = self.cells
        if name == "latex":
            cells = cells.map(_latex).rename(columns=_latex)
            caption = _latex(self.title)
            text = cells.to_latex(index=False, escape=False, caption=caption, label=f"tab:{self.name}").rstrip()
            return text.replace("\\caption", "\\centering\n\\small\n\\caption", 1)
        header, rows = cells.columns.tolist(), cells.to_numpy().tolist()
        lines = [f"{self.title}:", ""] if self.title else []
        if name == "text":
            return "\n".join([*lines, text_table(header, rows, width)])
        lines += [f"| {' | '.join(header)} |", "|" + "--|" * len(header)]
        escaped = [[_markdown(cell) for cell in row] for row in rows]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in escaped)])
