"""`rlher list`: what there is to choose from. Answers without importing torch."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rlher.algos import ALGORITHMS
from rlher.core.errors import UserError, did_you_mean
from rlher.envs import catalog
from rlher.her.strategies import STRATEGIES

Row = dict[str, Any]


def algos() -> list[Row]:
    """One row an algorithm."""
    return [
        {"algo": name, "actions": each.actions, "description": each.description} for name, each in ALGORITHMS.items()
    ]


def envs() -> list[Row]:
    """One row an environment with a YAML of its own."""
    rows = []
    for entry in catalog.entries():
        row = asdict(entry)
        needs = "" if row["installed"] else f"pip install 'rlher[{row['extra']}]'"
        rows.append({"env": row["name"], "actions": row["actions"], "needs": needs, "description": row["description"]})
    return rows


def strategies() -> list[Row]:
    """One row a goal selection strategy."""
    return [
        {"strategy": strategy.value, "description": (function.__doc__ or "").splitlines()[0]}
        for strategy, function in STRATEGIES.items()
    ]


LISTS = {"algos": algos, "envs": envs, "strategies": strategies}


def main(argv: Sequence[str]) -> int:
    """Print one list, or all of them."""
    parser = argparse.ArgumentParser(prog="rlher list", description="what there is to choose from")
    parser.add_argument("what", nargs="?", help=f"{', '.join(LISTS)}; default: all three")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    arguments = parser.parse_args(argv)
    if arguments.what not in (None, *LISTS):
        near = did_you_mean(arguments.what, LISTS)
        raise UserError(f"there is no list of {arguments.what!r}{near}. Lists: {', '.join(LISTS)}.")
    chosen = {name: rows() for name, rows in LISTS.items() if arguments.what in (None, name)}
    if arguments.json:
        print(json.dumps(chosen, indent=2))
    else:
        for rows in chosen.values():
            _print(rows)
    return 0


def _print(rows: list[Row]) -> None:
    columns = list(rows[0])
    widths = [max(len(str(row[column])) for row in [*rows, dict.fromkeys([column], column)]) for column in columns]
    for row in [dict(zip(columns, columns, strict=True)), *rows]:
        print("  ".join(str(row[column]).ljust(width) for column, width in zip(columns, widths, strict=True)).rstrip())
    print()
