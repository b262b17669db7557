"""The learning curve of a group of runs: interquartile mean over seeds and its bootstrap interval."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlher.analysis.grouping import Group, load_groups
from rlher.config.command_configs import PlotConfig
from rlher.core import stats
from rlher.core.console import warn
from rlher.core.errors import UserError, did_you_mean
from rlher.evaluation.metrics import METRICS


class XAxis(NamedTuple):
    """A horizontal axis.

    :param column: column of ``evaluations.csv``.
    :param unit: number in the column that is 1 on the axis.
    """

    column: str
    label: str
    unit: int = 1


X_AXES = {
    "steps": XAxis("timesteps", "environment steps"),
    "wall": XAxis("wall_seconds", "wall-clock time, min", unit=60),
    "updates": XAxis("updates", "gradient updates"),
}
"""Horizontal axes by the values of ``--x``."""

EVALUATION_RATES = {metric.name for metric in METRICS if metric.is_rate}
"""Columns that are shares of evaluation episodes."""

MAX_POINTS = 500
"""Maximum number of points of a curve; more would not be visible."""


@dataclass(frozen=True)
class GroupCurve:
    """The learning curve of a group.

    :param run_curves: y by x, for each run with numbers in both columns.
    :param summary: table by x. Column ``iqm`` is the interquartile mean over runs, and ``low`` and ``high`` are its
        95 % bootstrap interval. There is a row for each x at which a run was evaluated, within the range that all runs
        cover. Over wall-clock time, a run that has ended keeps its last value. The interval is NaN with fewer than
        :data:`~rlher.core.stats.MIN_SEEDS` runs. For rates of evaluations, the interval is at least as wide as
        Wilson's interval over all episodes.
    """

    group: Group
    run_curves: list[pd.Series]
    summary: pd.DataFrame

    @property
    def n_seeds(self) -> int:
        """Number of runs with numbers in both columns."""
        return len(self.run_curves)

    @property
    def has_band(self) -> bool:
        """Whether there are enough seeds for an interval."""
        return self.n_seeds >= stats.MIN_SEEDS and not self.summary.empty


def load_curves(config: PlotConfig) -> list[GroupCurve]:
    """Return the curves of the groups that a config selects. Leave out groups without numbers in both columns.

    :raises UserError: there are no runs, or no run has the two columns or numbers in both.
    """
    groups = load_groups(config)
    x, y = X_AXES[config.x].column, config.y
    known = {column for group in groups for run in group.runs for column in (*run.evaluations, *run.log)}
    for column in (x, y):
        if column not in known:
            columns = ", ".join(sorted(name for name in known if "/" not in name))
            raise UserError(f"no run has a column {column!r}{did_you_mean(column, known)}; available: {columns}.")
    all_curves = [group_curve(group, x, y, config.smooth) for group in groups]
    curves = [curve for curve in all_curves if curve.run_curves]
    if not curves:
        raise UserError(f"no run has numbers in both {x} and {y}; choose another column.")
    for curve in curves:
        if curve.summary.empty:
            warn(f"no mean of {curve.group.label}, because its runs have no {x} in common.")
    return curves


def group_curve(group: Group, x: str, y: str, smooth: int = 1) -> GroupCurve:
    """Return the learning curve of a group. ``run_curves`` is empty if no run has numbers in both columns.

    :param x: column of the horizontal axis.
    :param y: column of the vertical axis, as :meth:`RecordedRun.points` takes it.
    :param smooth: number of points in the centred running mean of each run.
    """
    points = {run: series for run in group.runs if len(series := run.points(x, y))}
    run_curves = [series.rolling(smooth, min_periods=1, center=True).mean() for series in points.values()]
    # Values between two evaluations are interpolated linearly. Values outside of a run's range stay NaN.
    table = pd.concat(run_curves, axis=1, sort=True) if run_curves else pd.DataFrame()
    between = table.interpolate(method="index", limit_area="inside")
    common = (between.ffill() if x == "wall_seconds" else between).dropna()
    if common.empty:
        return GroupCurve(group, run_curves, pd.DataFrame(columns=["iqm", "low", "high"], dtype=float))
    if len(common) > MAX_POINTS:
        common = common.iloc[np.linspace(0, len(common) - 1, MAX_POINTS).round().astype(int)]
    values = common.to_numpy().T
    episodes = sum(run.episodes for run in points)
    wilson = stats.wilson((values.mean(axis=0) * episodes).round(), episodes) if y in EVALUATION_RATES else None
    low, high = stats.bootstrap_interval([values], stats.iqm, wilson)
    mean = pd.DataFrame({"iqm": stats.iqm(values), "low": low, "high": high}, index=common.index)
    return GroupCurve(group, run_curves, mean)
