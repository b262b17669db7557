"""Write the tables of docs/guide/coming_from.md from rlher/cli/zoo_table.py: python scripts/zoo_table.py"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from rlher.cli.zoo_flags import translate
from rlher.cli.zoo_table import ENJOY, EXPORT, FLAGS, OPTIMIZE, PARAMETERS, PLOT, SCRIPTS, TRAIN, Row
from rlher.core.console import command_line

PAGE = Path(__file__).parents[1] / "docs/guide/coming_from.md"
SECTIONS: dict[str, tuple[str, Sequence[Row]]] = {
    "train": ("train", FLAGS["train"]),
    "optimize": ("optimize", [row for row in OPTIMIZE if row not in TRAIN]),
    "enjoy": ("enjoy", ENJOY),
    "export": ("export", [row for row in EXPORT if row not in ENJOY]),
    "plot": ("plot", PLOT),
    "parameters": ("train", PARAMETERS),
}
"""The tables, by the names of their markers: the command and the rows."""


def render(page: str) -> str:
    """Return the page with the tables between ``<!-- table <name> -->`` and ``<!-- end -->`` written anew."""
    tables = {name: rows_table(*section) for name, section in SECTIONS.items()} | {"scripts": scripts_table()}
    return re.sub(
        r"(<!-- table (\w+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{tables[found[2]]}\n{found[3]}",
        page,
        flags=re.DOTALL,
    )


def typed(row: Row) -> str:
    """Return the example of a row as one types it into a shell for RL Zoo."""
    if row in PARAMETERS:
        return f'-params "{row.example}"' if set("('[") & set(row.example) else f"-params {row.example}"
    return row.example if row.kind == "run" else f"{row.names.split(', ')[0]} {row.example}".strip()


def translated(command: str, row: Row) -> str:
    """Return rlher's words for the example of a row."""
    if row.rlher is None or row.kind in ("run", "file"):
        return row.rlher or ""
    found = translate(command, shlex.split(typed(row)))
    variables = [f"{name}={value}" for name, value in found.variables.items()]
    return command_line([*variables, *found.words])


def rows_table(command: str, rows: Sequence[Row]) -> str:
    """Return the table of a command's flags, or of hyperparameters."""
    lines = ["| RL Zoo | rlher | |", "|--|--|--|"]
    for row in rows:
        other = row.names.split(", ")[1:] if row not in PARAMETERS and row.kind != "run" else []
        zoo = ", ".join([f"`{typed(row)}`", *(f"`{name}`" for name in other)])
        rlher = translated(command, row)
        note = row.note if row.rlher is not None else f"refused: {row.note}"
        lines.append(f"| {zoo} | {f'`{rlher}`' if rlher else ''} | {note} |")
    return "\n".join(lines) + "\n"


def scripts_table() -> str:
    """Return the table of RL Zoo's scripts."""
    lines = ["| RL Zoo | rlher | |", "|--|--|--|"]
    for script in SCRIPTS:
        rlher = f"`rlher {script.command}`" if script.command else ""
        lines.append(f"| `python -m rl_zoo3.{script.name}` | {rlher} | {script.note} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
