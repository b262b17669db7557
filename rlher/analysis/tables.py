"""A table of numbers, and its text as aligned columns, Markdown, LaTeX or CSV."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from rlher.core.console import UNLIMITED_WIDTH, text_table

MISSING = "–"


def _markdown(cell: str) -> str:
    """Return a text with HTML and links disabled, because the names of somebody else's runs may contain them."""
    return html.escape(cell, quote=False).replace("|", r"\|").replace("](", r"]\(")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: the printed text, and the numbers behind the text.

    :param header: header of the printed column.
    :param text: printed text. A column in which every text is :data:`MISSING` is not printed.
    :param numbers: columns of CSV and of :attr:`Table.numbers`. None stands for the text, under the header.
    """

    header: str
    text: str
    numbers: Mapping[Any, Any] | None = None


@dataclass(frozen=True)
class Table:
    """A table of numbers that can be printed.

    :param title: heading, may be empty.
    :param rows: the cells of each row. All rows have the same headers.
    :param label: label of the table in LaTeX.
    :param latex_layout: the table that LaTeX shows instead of this table, or None for this table.
    """

    title: str
    rows: Sequence[Sequence[Cell]]
    label: str
    latex_layout: "Table | None" = None

    @property
    def numbers(self) -> pd.DataFrame:
        """The table as numbers, one row per row of the table."""
        rows = [[cell.numbers or {cell.header: cell.text} for cell in row] for row in self.rows]
        return pd.DataFrame([{name: number for cell in row for name, number in cell.items()} for row in rows])

    @property
    def cells(self) -> pd.DataFrame:
        """The table as text, without columns that have no value in any row."""
        cells = pd.DataFrame([{cell.header: cell.text for cell in row} for row in self.rows])
        return cells.loc[:, (cells != MISSING).any()]

    def format(self, format: str, width: int = UNLIMITED_WIDTH) -> str:
        """Return the table as ``text``, ``markdown``, ``latex``, or its numbers as ``csv``.

        :param width: characters per line of ``text``. A wider table wraps its cells.
        """
        if not self.rows:
            return ""
        if format == "csv":
            return self.numbers.to_csv(index=False).rstrip()
        if format == "latex":
            return (self.latex_layout or self)._to_latex()
        lines = [f"{self.title}:", ""] if self.title else []
        cells = self.cells
        header, rows = cells.columns.tolist(), cells.to_numpy().tolist()
        if format == "text":
            lines.append(text_table(header, rows, width))
        else:
            lines += [f"| {' | '.join(header)} |", "|" + "--|" * len(header)]
            lines += [f"| {' | '.join(map(_markdown, row))} |" for row in rows]
        return "\n".join(lines)

    def _to_latex(self) -> str:
        caption = self.title.replace("%", r"\%")
        text = self.cells.to_latex(index=False, escape=True, caption=caption, label=f"tab:{self.label}").rstrip()
        return text.replace("\\caption", "\\centering\n\\small\n\\caption", 1)
