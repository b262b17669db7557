"""The learning curve of a group of runs: interquartile mean over seeds and its bootstrap interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlher.analysis.grouping import Group
from rlher.core import stats
from rlher.core.errors import UserError, did_you_mean
from rlher.evaluation.metrics import METRICS

MIN_SEEDS = 3
"""Fewest runs of a group for an interval, a probability of improvement or a performance profile."""

EVALUATION_RATES = {metric.name for metric in METRICS if metric.is_rate}
"""Columns that are shares of evaluation episodes."""

NARROWEST = (np.inf, -np.inf)
"""An interval that every other one contains."""

MAX_POINTS = 500
"""Maximum number of points of a curve; more would not be visible."""


@dataclass(frozen=True)
class GroupCurve:
    """The learning curve of a group.

    :param seeds: x and y of each run with numbers in both columns.
    :param x: (points,) all x at which a run was evaluated, within the range that all runs cover.
    :param iqm: (points,) interquartile mean over runs.
    :param low: (points,) lower end of its 95 % bootstrap interval, for evaluation rates at least as wide as Wilson's
        over all episodes; NaN with fewer than :data:`MIN_SEEDS` runs.
    :param high: (points,) upper end.
    :param is_wilson: whether the interval is at least as wide as Wilson's.
    """

    group: Group
    seeds: list[tuple[NDArray, NDArray]]
    x: NDArray
    iqm: NDArray
    low: NDArray
    high: NDArray
    is_wilson: bool = False

    @property
    def has_band(self) -> bool:
        """Whether there are enough seeds for an interval."""
        return len(self.seeds) >= MIN_SEEDS


def aggregate_all(groups: Sequence[Group], x: str, y: str, smooth: int = 1) -> list[GroupCurve]:
    """Return the curve of each group that has numbers in two columns.

    :param x: column of the horizontal axis.
    :param y: column of the vertical axis, as :meth:`LoadedRun.points` takes it.
    :param smooth: number of points in the running mean of each run.
    :raises UserError: no run has the columns, or numbers in both.
    """
    known = {column for group in groups for run in group.runs for column in run.columns}
    for column in (x, y):
        if column not in known:
            columns = ", ".join(sorted(name for name in known if "/" not in name))
            raise UserError(f"no run has a column {column!r}{did_you_mean(column, known)}; available: {columns}.")
    curves = [curve for group in groups if (curve := aggregate(group, x, y, smooth)).seeds]
    if not curves:
        raise UserError(f"no run has numbers in both {x} and {y}; choose another column.")
    return curves


def aggregate(group: Group, x: str, y: str, smooth: int = 1) -> GroupCurve:
    """Return the learning curve of a group; without seeds if no run has numbers in both columns.

    :param x: column of the horizontal axis.
    :param y: column of the vertical axis, as :meth:`LoadedRun.points` takes it.
    :param smooth: number of points in the running mean of each run.
    """
    found = [(run, points) for run in group.runs if len((points := run.points(x, y))[0])]
    seeds = [(at, pd.Series(values).rolling(smooth, min_periods=1).mean().to_numpy()) for _, (at, values) in found]
    grid, values = common_grid(seeds)
    if not len(grid):
        return GroupCurve(group, seeds, grid, grid, grid, grid)
    is_wilson = len(seeds) >= MIN_SEEDS and y in EVALUATION_RATES
    at_least = _wilson(values, sum(run.episodes for run, _ in found)) if is_wilson else NARROWEST
    low, high = interval([values], stats.iqm, at_least)
    return GroupCurve(group, seeds, grid, stats.iqm(values), low, high, is_wilson)


def interval(
    samples: Sequence[NDArray], statistic: Callable[..., NDArray], at_least: tuple[Any, Any]
) -> tuple[NDArray, NDArray]:
    """Return the 95 % bootstrap interval of a statistic over runs; NaN where a sample has too few of them.

    :param samples: arrays whose first axis is runs.
    :param at_least: an interval that it contains: three seeds at 100 % do not prove 100 %.
    """
    if min(map(len, samples)) < MIN_SEEDS:
        missing = np.full(samples[0].shape[1:], np.nan)
        return missing, missing
    low, high = stats.bootstrap_interval(samples, statistic)
    return np.minimum(low, at_least[0]), np.maximum(high, at_least[1])


def _wilson(rates: NDArray, episodes: int) -> tuple[NDArray, NDArray]:
    """Return Wilson's interval of a rate at each point.

    :param rates: (runs, points).
    :param episodes: episodes behind a point, all runs together.
    """
    successes = (rates.mean(axis=0) * episodes).round().astype(int).tolist()
    low, high = np.transpose([stats.wilson(count, episodes) for count in successes])
    return low, high


def common_grid(seeds: Sequence[tuple[NDArray, NDArray]]) -> tuple[NDArray, NDArray]:
    """Return all x at which a run was evaluated, within the range that all runs cover, and each run's y there.

    Values between two evaluations are interpolated linearly. At most :data:`MAX_POINTS` of the x are kept.

    :param seeds: x and y of each run.
    :return: (points,) x, and (runs, points) y; no points if the runs have no range in common.
    """
    if not seeds:
        return np.empty(0), np.empty((0, 0))
    low, high = max(x.min() for x, _ in seeds), min(x.max() for x, _ in seeds)
    grid = np.unique(np.concatenate([x for x, _ in seeds]))
    grid = grid[(grid >= low) & (grid <= high)]
    if len(grid) > MAX_POINTS:
        grid = grid[np.linspace(0, len(grid) - 1, MAX_POINTS).round().astype(int)]
    return grid, np.array([np.interp(grid, x, y) for x, y in seeds]).reshape(len(seeds), len(grid))
