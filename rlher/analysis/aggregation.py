"""Runs of a group as one line: their interquartile mean and its band."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlher.analysis.loading import Group
from rlher.core import stats

MOST = 500
"""Points a line is drawn with: more cannot be told apart."""


@dataclass(frozen=True)
class Average:
    """A group as one line.

    :param group: whose it is.
    :param seeds: x and y of each run, as long as the run is; runs without a number in both are left out.
    :param x: (points,) every x any run was evaluated at, as far as all have come.
    :param iqm: (points,) interquartile mean of the runs there.
    :param low: (points,) lower end of its 95 % interval, NaN of a single run.
    :param high: (points,) upper end.
    :param stretch: evaluations that a point of the longest run is the mean of; 1 where there are few enough.
    """

    group: Group
    seeds: list[tuple[NDArray, NDArray]]
    x: NDArray
    iqm: NDArray
    low: NDArray
    high: NDArray
    stretch: int


def average(group: Group, x: str, y: str) -> Average:
    """Average the runs of a group over one column of their evaluations.

    :param x: column that the line is over.
    :param y: column that it is of.
    """
    tables = [curve.rows.dropna(subset=[x, y]) for curve in group.curves if {x, y} <= set(curve.rows)]
    seeds = [_thinned(rows[x].to_numpy(float), rows[y].to_numpy(float)) for rows in tables if len(rows)]
    stretch = max((_stretch(len(rows)) for rows in tables), default=1)
    grid, values = common_grid(seeds)
    if not len(grid):
        return Average(group, seeds, grid, grid, grid, grid, stretch)
    middle = stats.iqm(values)
    low, high = stats.bootstrap_interval([values]) or (middle * np.nan, middle * np.nan)
    return Average(group, seeds, grid, middle, low, high, stretch)


def remarks(lines: Iterable[Average]) -> list[str]:
    """Say which lines have fewer points than their runs have evaluations."""
    return [
        f"{line.group.env}, {line.group.label}: a point is the mean of {line.stretch} evaluations"
        for line in lines
        if line.stretch > 1
    ]


def _stretch(evaluations: int) -> int:
    return -(-evaluations // MOST) or 1


def _thinned(x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
    """Return the means of as many successive points as leave :data:`MOST` of them."""
    starts = np.arange(0, len(x), _stretch(len(x)))
    counts = np.diff(starts, append=len(x))
    return np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts


def common_grid(seeds: Sequence[tuple[NDArray, NDArray]]) -> tuple[NDArray, NDArray]:
    """Return every x any run was evaluated at, as far as all have come, and each run's y there, between evaluations
    on a straight line. Of more than :data:`MOST` x some are left out.

    :param seeds: x and y of each run.
    :return: (points,) x, and (runs, points) y; no points where the runs have no x in common.
    """
    if not seeds:
        return np.empty(0), np.empty((0, 0))
    low, high = max(x.min() for x, _ in seeds), min(x.max() for x, _ in seeds)
    grid = np.unique(np.concatenate([x for x, _ in seeds]))
    grid = grid[(grid >= low) & (grid <= high)]
    if len(grid) > MOST:
        grid = grid[np.linspace(0, len(grid) - 1, MOST).round().astype(int)]
    return grid, np.array([np.interp(grid, x, y) for x, y in seeds]).reshape(len(seeds), len(grid))
