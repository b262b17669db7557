"""A comparison as tables: the numbers for programs, the words for people."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rlher.analysis import comparison
from rlher.analysis.loading import Group
from rlher.core.console import escape_control

Cells = Mapping[str, Callable[[Any], str]]
"""Of a table in words: column → what it says of a row of the numbers."""


@dataclass(frozen=True)
class Table:
    """One of the tables that `rlher compare` prints and `rlher report` shows.

    :param title: what it is of; the first has none.
    :param numbers: as :mod:`rlher.analysis.comparison` has them.
    :param cells: its columns in words.
    """

    title: str
    numbers: pd.DataFrame
    cells: Cells

    @property
    def words(self) -> pd.DataFrame:
        """As people read it: every cell a text."""
        rows = self.numbers.to_dict("records")
        return pd.DataFrame([{name: cell(row) for name, cell in self.cells.items()} for row in rows])


def tables(groups: Sequence[Group]) -> list[Table]:
    """Compare some groups: their summary and, of those with enough seeds, who beats whom and performance profiles."""
    groups = [replace(each, env=escape_control(each.env), label=escape_control(each.label)) for each in groups]
    found = [
        Table("", comparison.summary(groups), SUMMARY),
        Table(
            "Probability that a run of the one has a higher final success rate than a run of the other",
            comparison.better(groups),
            BETTER,
        ),
        Table("Share of runs whose final success rate is above", comparison.profiles(groups), PROFILES),
    ]
    return [table for table in found if len(table.numbers)]


def percent(rate: float) -> str:
    """Write a rate in [0, 1] in per cent, NaN as a dash."""
    return "–" if np.isnan(rate) else f"{100 * rate:.1f} %"


def _text(column: Any) -> Callable[[Any], str]:
    return lambda row: str(row[column])


def _success(row: Any) -> str:
    interval = "" if np.isnan(row["low"]) else f" [{percent(row['low'])}, {percent(row['high'])}]"
    return percent(row["success_rate"]) + interval


def _steps(level: int) -> Callable[[Any], str]:
    def told(row: Any) -> str:
        middle, never = row[f"steps_to_{level}"], row[f"never_{level}"]
        return ("never" if np.isinf(middle) else f"{middle:,.0f}") + (
            f" ({never} of {row['seeds']} never)" if never else ""
        )

    return told


def _share(level: float) -> Callable[[Any], str]:
    return lambda row: f"{row[level]:.0%}"


SUMMARY: Cells = {
    "env": _text("env"),
    "agent": _text("agent"),
    "seeds": _text("seeds"),
    "final success": _success,
    "of each seed": lambda row: " / ".join(f"{100 * final:.0f}" for final in row["each"]),
    "crashed": lambda row: percent(row["crash_rate"]),
    "50 % at": _steps(50),
    "90 % at": _steps(90),
    "steps": lambda row: f"{row['timesteps']:,}",
}
BETTER: Cells = {
    "env": _text("env"),
    "the one": _text("one"),
    "the other": _text("other"),
    "probability": lambda row: f"{row['probability']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
}
PROFILES: Cells = {
    "env": _text("env"),
    "agent": _text("agent"),
    **{f"{level:.0%}": _share(level) for level in comparison.LEVELS},
}
