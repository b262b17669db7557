"""The tables of `rlher compare` and `rlher report`: numbers, and differences of configuration and versions."""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from rlher.analysis import comparison
from rlher.analysis.grouping import Group, is_experiment_key
from rlher.analysis.loading import LoadedRun
from rlher.config.override_syntax import literal
from rlher.core.console import text_table
from rlher.core.nested import flatten
from rlher.core.safe_read import read_json
from rlher.evaluation.metrics import BY_NAME, STEPS_TO, SUCCESS_RATE
from rlher.run.run_folder import METADATA

MISSING = "–"

Columns = Mapping[str, Callable[[Any], str]]
"""Column headers, each with the function that formats its cell from a row of numbers."""


@dataclass(frozen=True)
class Table:
    """One table of a comparison.

    :param title: heading; empty for the summary.
    :param numbers: as returned by :mod:`rlher.analysis.comparison`.
    """

    title: str
    numbers: pd.DataFrame
    columns: Columns

    @property
    def cells(self) -> pd.DataFrame:
        """The table as text, without columns that have no value in any row."""
        rows = self.numbers.to_dict("records")
        table = pd.DataFrame([{name: cell(row) for name, cell in self.columns.items()} for row in rows])
        return table.loc[:, (table != MISSING).any()]

    def format(self, name: str, width: int) -> str:
        """Return the table as ``text``, ``markdown``, ``latex``, or its numbers as ``csv``.

        :param width: characters per line of a text; a wider table wraps its cells.
        """
        if name == "csv":
            return self.numbers.to_csv(index=False).rstrip()
        cells = self.cells
        if name == "latex":  # a ``tabular``, in a ``table`` with a caption if there is a title
            text = cells.to_latex(index=False, escape=True, caption=self.title or None).rstrip()
            return text.replace("\\caption", "\\centering\n\\caption", 1)
        header, rows = cells.columns.tolist(), cells.to_numpy().tolist()
        lines = [f"{self.title}:", ""] if self.title else []
        if name == "text":
            return "\n".join([*lines, text_table(header, rows, width)])
        lines += [f"| {' | '.join(header)} |", "|" + "--|" * len(header)]
        # Names come from run folders, which may be somebody else's, and Markdown passes HTML on to the browser.
        escaped = [[html.escape(cell, quote=False).replace("|", r"\|") for cell in row] for row in rows]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in escaped)])


def tables(groups: Sequence[Group]) -> list[Table]:
    """Return the summary of some groups, agents over several environments and, of groups with enough seeds,
    probabilities of improvement and performance profiles."""
    found = [
        Table("", comparison.summary(groups), SUMMARY),
        Table("Final success rate over several environments", comparison.over_environments(groups), OVER_ENVIRONMENTS),
        Table(
            "Probability that a run of A has a higher final success rate than a run of B",
            comparison.improvements(groups),
            IMPROVEMENTS,
        ),
        Table(
            "Performance profile: fraction of runs with a final success rate above",
            comparison.performance_profiles(groups),
            PROFILES,
        ),
    ]
    return [table for table in found if len(table.numbers)]


def by_environment(summary: pd.DataFrame) -> Table:
    """Return the final success rates as one table for a paper, environments by agents.

    :param summary: as :func:`rlher.analysis.comparison.summary` returns it.
    """
    cell = _with_interval("success_rate")
    numbers = summary.assign(cell=[cell(row).replace("%", "") for row in summary.to_dict("records")])
    table = numbers.pivot(index="env", columns="agent", values="cell")
    table = table.loc[numbers["env"].unique(), numbers["agent"].unique()].fillna(MISSING).reset_index()
    title = "Final success rate in per cent: interquartile mean over seeds, with its interval of 95 per cent"
    return Table(title, table, {str(name): itemgetter(name) for name in table})


def percent(rate: float) -> str:
    """Return a rate in [0, 1] in per cent, NaN as a dash."""
    return MISSING if np.isnan(rate) else SUCCESS_RATE.format(rate)


def _with_interval(name: str, low: str = "low", high: str = "high") -> Callable[[Any], str]:
    """Return a function that formats a rate with its interval, if it has one."""

    def cell(row: Any) -> str:
        interval = "" if np.isnan(row[low]) else f" [{percent(row[low])}, {percent(row[high])}]"
        return percent(row[name]) + interval

    return cell


def _steps(level: int) -> Callable[[Any], str]:
    def cell(row: Any) -> str:
        median, never = row[f"steps_to_{level}"], row[f"never_{level}"]
        if never == row["seeds"]:
            return "never"
        if np.isinf(median):
            return f"never in {never} of {row['seeds']}"
        return f"{median:,.0f}" + (f" ({never} of {row['seeds']} never)" if never else "")

    return cell


def _fraction(level: float) -> Callable[[Any], str]:
    return lambda row: f"{row[level]:.0%}"


SUMMARY: Columns = {
    "env": itemgetter("env"),
    "agent": itemgetter("agent"),
    "seeds": lambda row: str(row["seeds"]),
    "final success": _with_interval("success_rate"),
    "per seed": lambda row: " / ".join(f"{100 * final:.0f}" for final in row["each"]),
    BY_NAME["crash_rate"].axis: lambda row: percent(row["crash_rate"]),
    **{f"steps to {level}%": _steps(level) for level in STEPS_TO},
    "steps": lambda row: f"{row['timesteps']:,}",
}
OVER_ENVIRONMENTS: Columns = {
    "agent": itemgetter("agent"),
    "environments": itemgetter("environments"),
    "runs": lambda row: str(row["runs"]),
    "interquartile mean": _with_interval("iqm"),
    "optimality gap": _with_interval("gap", "gap_low", "gap_high"),
}
IMPROVEMENTS: Columns = {
    "env": itemgetter("env"),
    "A": itemgetter("A"),
    "B": itemgetter("B"),
    "probability": lambda row: f"{row['probability']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
}
PROFILES: Columns = {
    "env": itemgetter("env"),
    "agent": itemgetter("agent"),
    **{f"{level:.0%}": _fraction(level) for level in comparison.PROFILE_LEVELS},
}


def configuration(groups: Sequence[Group]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the keys of the runs' configuration, package versions and machines: those that differ, and the others.

    Each table has a row per key and a column per group, with the distinct values of its runs as text. Differing keys
    that distinguish experiments come first, then seed and versions.
    """
    runs = pd.DataFrame([dict(_values(run)) for group in groups for run in group.runs]).fillna(MISSING)
    sections = {name.rpartition(".")[0] for name in map(str, runs)}  # an empty section is a key of its run
    names = sorted(
        (name for name in map(str, runs) if name not in sections), key=lambda name: not is_experiment_key(name)
    )
    runs = runs[names]
    numbers = np.repeat(np.arange(len(groups)), [len(group.runs) for group in groups])
    table = runs.groupby(numbers).agg(_join_distinct).T
    differs = runs.nunique() > 1
    return table[differs], table[~differs]


def _join_distinct(values: pd.Series) -> str:
    return ", ".join(values.unique())


def _values(run: LoadedRun) -> Iterator[tuple[str, str]]:
    """Yield the keys of a run's config and ``meta.json`` except those that always differ, with their values as text."""
    for key, value in chain(run.config.items(), flatten({"meta": read_json(run.folder / METADATA)})):
        if key not in ("logs", "meta", "meta.started", "meta.seed"):
            yield key, str(value) if isinstance(value, str | dict) else literal(value)
