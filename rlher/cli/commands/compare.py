"""`rlher compare`: what can be said of several agents from the runs there are, in tables."""

from rlher.analysis import comparison
from rlher.analysis.tables import Table, tables
from rlher.config.curves import CompareConfig
from rlher.core.console import warn


def compare(config: CompareConfig) -> int:
    """Print a summary, the probabilities of improvement and the performance profiles, a table each.

    CSV has the bare numbers, for programs; Markdown and LaTeX have words, for people.

    :raises UserError: no runs.
    """
    groups, notes = comparison.arms(config.runs, config.logs, config.by)
    for line in [*notes, *comparison.caveats(groups)]:
        warn(line)
    print("\n\n".join(_printed(table, config.format) for table in tables(groups)))
    return 0


def _printed(table: Table, form: str) -> str:
    if form == "csv":
        return table.numbers.to_csv(index=False).rstrip()
    words = table.words
    if form == "latex":
        return words.to_latex(index=False, escape=True, caption=table.title or None).rstrip()
    rows = [[cell.replace("|", "\\|") for cell in row] for row in words.to_numpy().tolist()]
    lines = ["| " + " | ".join(row) + " |" for row in [list(words), *rows]]
    return "\n".join(
        [*([f"{table.title}:", ""] if table.title else []), lines[0], "|" + "--|" * len(words.columns), *lines[1:]]
    )
