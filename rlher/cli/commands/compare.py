"""Tabulate final success, probability of improvement and performance profiles of runs."""

from rlher.config.commands import CompareConfig
from rlher.core.console import output_width


def run(config: CompareConfig) -> int:
    """Print the tables in ``config.format``: aligned text, Markdown, LaTeX, or the plain numbers as CSV.

    :raises UserError: there are no runs.
    """
    from rlher.analysis.comparison import load, tables

    found = tables(load(config), config.format)
    print("\n\n".join(table.format(config.format, output_width()) for table in found))
    return 0
