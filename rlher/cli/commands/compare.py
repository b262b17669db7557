"""Tabulate final success, probability of improvement and performance profiles of runs."""

from rlher.config.commands import CompareConfig
from rlher.core.console import output_width, warn


def run(config: CompareConfig) -> int:
    """Print the tables in ``config.format``: aligned text, Markdown, LaTeX, or the plain numbers as CSV.

    In LaTeX the summary has environments by agents, as a paper does.

    :raises UserError: there are no runs.
    """
    from rlher.analysis.comparison import few_seeds_notes
    from rlher.analysis.grouping import load_groups
    from rlher.analysis.tables import by_environment, tables

    groups, notes = load_groups(config.runs, config.logs, config.by)
    for note in [*notes, *few_seeds_notes(groups)]:
        warn(note)
    found = tables(groups)
    if config.format == "latex":
        found[0] = by_environment(found[0].numbers)
    print("\n\n".join(table.format(config.format, output_width()) for table in found))
    return 0
