"""A table of numbers, and its text as aligned columns, Markdown, LaTeX or CSV."""

import html
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pandas as pd

from rlher.core.console import MAX_WIDTH, csv_text, text_table

MISSING = "–"

LATEX = str.maketrans(
    {char: f"\\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", MISSING: "--"}
)
"""Characters that mean something else in LaTeX, as text."""

Row = dict[Any, Any]
"""Numbers of a row, by column."""
Cells = dict[str, str]
"""Texts of a row, by the header of their column."""


def _markdown(cell: str) -> str:
    """Return a text without HTML and links: names come from run folders, which may be somebody else's."""
    return html.escape(cell, quote=False).replace("|", r"\|").replace("](", r"]\(")


@dataclass(frozen=True)
class Table:
    """A table of numbers that can be printed.

    :param title: heading, may be empty.
    :param to_cells: returns the texts of a row of numbers.
    :param name: for the label in LaTeX.
    :param formulas: cells and headers whose formulas between dollar signs are set by LaTeX.
    """

    title: str
    numbers: pd.DataFrame
    to_cells: Callable[[Row], Cells]
    name: str
    formulas: Collection[str]

    @property
    def cells(self) -> pd.DataFrame:
        """The table as text, without columns that have no value in any row."""
        cells = pd.DataFrame([self.to_cells(row) for row in self.numbers.to_dict("records")])
        return cells.loc[:, (cells != MISSING).any()]

    def format(self, name: str, width: int = MAX_WIDTH) -> str:
        """Return the table as ``text``, ``markdown``, ``latex``, or its numbers as ``csv``.

        :param width: characters per line of a text; a wider table wraps its cells.
        """
        if self.numbers.empty:
            return ""
        if name == "csv":
            return csv_text(self.numbers).rstrip()
        cells = self.cells
        if name == "latex":
            cells = cells.map(self._to_latex).rename(columns=self._to_latex)
            caption, label = self._to_latex(self.title), f"tab:{self.name}"
            text = cells.to_latex(index=False, escape=False, caption=caption, label=label).rstrip()
            return text.replace("\\caption", "\\centering\n\\small\n\\caption", 1)
        header, rows = cells.columns.tolist(), cells.to_numpy().tolist()
        lines = [f"{self.title}:", ""] if self.title else []
        if name == "text":
            return "\n".join([*lines, text_table(header, rows, width)])
        lines += [f"| {' | '.join(header)} |", "|" + "--|" * len(header)]
        escaped = [[_markdown(cell) for cell in row] for row in rows]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in escaped)])

    def _to_latex(self, text: str) -> str:
        """Return a text with escaped characters, and with its formulas if it is one of those in ``formulas``."""
        parts = text.split("$") if text in self.formulas else [text]
        escaped = "$".join(part if index % 2 else part.translate(LATEX) for index, part in enumerate(parts))
        return "{}" * text.startswith("[") + escaped  # after a line break, a bracket would begin a length
