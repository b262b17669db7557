"""Tabulate final success, probability of improvement and performance profiles of runs."""

from pathlib import Path

from rlher.config.commands import CompareConfig
from rlher.core.console import UNLIMITED_WIDTH, output_width
from rlher.core.errors import UserError
from rlher.core.files import output_file

FORMATS = {".tex": "latex", ".csv": "csv", ".md": "markdown", ".txt": "text"}
"""Formats by the suffix of a file."""


def run(config: CompareConfig, command_line: str) -> int:
    """Print the tables as aligned text, Markdown, LaTeX, or the plain numbers as CSV; or write them to files.

    :raises UserError: there are no runs, or a file has no format or cannot be written.
    """
    from rlher.analysis.comparison import load_compared, tables

    suffixes = {name: Path(name).suffix.lower() for name in config.output}
    for name, suffix in suffixes.items():
        if not config.format and suffix not in FORMATS:
            raise UserError(f"output={name!r} needs a name that ends in one of {', '.join(FORMATS)}, or a format=.")
    groups = load_compared(config)

    def text(format: str, width: int) -> str:
        return "\n\n".join(table.format(format, width) for table in tables(groups, format))

    if not config.output:
        print(text(config.format or "text", output_width()))
    for name, suffix in suffixes.items():
        with output_file(Path(name)) as temporary:
            temporary.write_text(text(config.format or FORMATS[suffix], UNLIMITED_WIDTH) + "\n", encoding="utf-8")
        print(name)
    return 0
