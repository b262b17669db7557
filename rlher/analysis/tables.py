"""The tables of `rlher compare` and `rlher report`: numbers, and differences of configuration and versions."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

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
            return cells.to_latex(index=False, escape=True, caption=self.title or None).rstrip()
        header, rows = cells.columns.tolist(), cells.to_numpy().tolist()
        lines = [f"{self.title}:", ""] if self.title else []
        if name == "text":
            return "\n".join([*lines, text_table(header, rows, width)])
        header_line, *others = [f"| {' | '.join(row)} |" for row in [header, *map(_escape_markdown, rows)]]
        return "\n".join([*lines, header_line, "|" + "--|" * len(header), *others])


def _escape_markdown(row: list[str]) -> list[str]:
    """Return cells without Markdown and HTML: the name of an environment may come from anybody.

    Markdown never takes a character reference as markup. Underscores within a word and brackets around an interval are
    no markup either, and stay readable.
    """
    markup = re.compile(r"[|`*~<>&\\]|(?<!\w)_|_(?!\w)|(?<=\])\(")
    return [markup.sub(lambda found: f"&#{ord(found[0])};", cell) for cell in row]


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


class Key(NamedTuple):
    """One key in all groups.

    :param cells: one text per group: the distinct values of its runs.
    :param differs: whether two runs have different values.
    """

    name: str
    cells: list[str]
    differs: bool


def configuration(groups: Sequence[Group]) -> list[Key]:
    """Return the keys of the runs' configuration, package versions and machines.

    Differing keys that distinguish experiments come first, then other differing keys (seed, versions), then the rest.
    """
    runs = [[dict(_values(run)) for run in group.runs] for group in groups]
    names = dict.fromkeys(name for values in runs for each in values for name in each)
    sections = {name.rpartition(".")[0] for name in names}  # an empty section is a key of its run
    keys = []
    for name in names:
        if name not in sections:
            cells = [list(dict.fromkeys(each.get(name, MISSING) for each in values)) for values in runs]
            keys.append(Key(name, [", ".join(cell) for cell in cells], len(set(chain(*cells))) > 1))
    return sorted(keys, key=lambda key: (not key.differs, not is_experiment_key(key.name)))


def _values(run: LoadedRun) -> Iterator[tuple[str, str]]:
    """Yield the keys of a run's config and ``meta.json`` except those that always differ, with their values as text."""
    for key, value in chain(run.config.items(), flatten({"meta": read_json(run.folder / "meta.json")})):
        if key not in ("logs", "meta", "meta.started", "meta.seed"):
            yield key, str(value) if isinstance(value, str | dict) else literal(value)
