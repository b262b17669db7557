"""Text tables with aligned columns."""

import shutil
import sys
from collections.abc import Sequence

MAX_WIDTH = 10_000
"""Characters per line of a table that is not printed to a terminal, so that no cell wraps."""


GAP = 3
"""Characters between two columns."""


def output_width() -> int:
    """Return the characters per line of a table on stdout."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else MAX_WIDTH


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return a table with aligned columns. Where the width does not suffice, cells wrap between words.

    :param width: characters per line; narrower than the longest words: words wrap too.
    """
    from rich import box  # takes a tenth of a second, and few commands print tables
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    columns = list(zip(header, *rows, strict=True))
    for name, size in zip(header, _column_widths(columns, width - GAP * (len(header) - 1)), strict=True):
        table.add_column(Text(name), overflow="fold", width=size)
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _column_widths(columns: Sequence[Sequence[str]], width: int) -> Sequence[int | None]:
    """Return the width of each column; None, to be chosen by rich, if not even the longest words fit.

    Every column has room for its longest word. The rest goes to the columns that lack most.
    """
    from rich.cells import cell_len

    needed = [max(map(cell_len, column)) for column in columns]
    widths = [max(cell_len(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    if sum(widths) > width:
        return [None] * len(columns)
    for _ in range(min(width, sum(needed)) - sum(widths)):
        lacking = [need - size for need, size in zip(needed, widths, strict=True)]
        widths[lacking.index(max(lacking))] += 1
    return widths
