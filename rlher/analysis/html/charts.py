"""Data of the report's charts as numbers for page.js: learning curves, training curves and performance profiles."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.analysis import comparison, style
from rlher.analysis.aggregation import GroupCurve, aggregate, seeds_label
from rlher.analysis.columns import REPORTED, describe
from rlher.analysis.grouping import Group
from rlher.core.console import escape_control

Chart = dict[str, Any]
"""``title``, ``x`` and ``y`` (axis labels), ``percent`` (axes in per cent: ``""``, ``"y"`` or ``"xy"``) and ``lines``.

A line has ``label``, ``index`` (of its group within the environment), ``color``, ``dashes``, ``x``, ``y``, ``low`` and
``high`` (the band; empty without one), and ``seeds``, [x, y] of each run. Small charts also have ``legend``: the index
of the chart whose legend they share."""

X, Y = "timesteps", "success_rate"

MAX_SMALL_POINTS = 150
"""Maximum number of points of a line in a small chart."""


def learning_curves(curves: Sequence[GroupCurve]) -> list[Chart]:
    """Return one chart per environment, with the same lines as `rlher plot`."""
    charts = []
    for env in dict.fromkeys(curve.group.env for curve in curves):
        members = [curve for curve in curves if curve.group.env == env]
        lines = [_curve_line(curve, index) for index, curve in enumerate(members)]
        charts.append(_chart(env, (describe(X).axis, describe(Y).axis), "y", lines))
    return charts


def training_curves(groups: Sequence[Group]) -> list[Chart]:
    """Return a small chart per environment and column of :data:`REPORTED` in which a run has numbers."""
    charts = []
    for legend, env in enumerate(dict.fromkeys(group.env for group in groups)):
        members = [group for group in groups if group.env == env]
        for column in REPORTED:
            curves = [aggregate(group, X, column, MAX_SMALL_POINTS) for group in members]
            lines = [_curve_line(curve, index) for index, curve in enumerate(curves) if len(curve.x)]
            if lines:
                percent, axes = "y" if describe(column).is_rate else "", (describe(X).axis, describe(column).axis)
                charts.append(_chart(column, axes, percent, lines) | {"legend": legend})
    return charts


def performance_profiles(groups: Sequence[Group]) -> list[Chart]:
    """Return one chart per environment: the fraction of runs with a final success rate above each level.

    Groups with too few runs have no line; the others keep the colours of their learning curves.
    """
    charts = []
    for env in dict.fromkeys(group.env for group in groups):
        lines = []
        for index, group in enumerate(group for group in groups if group.env == env):
            levels = np.unique([0, *comparison.final_success_rates(group), 1])
            for row in comparison.performance_profiles([group], levels.tolist()).itertuples(index=False):
                steps = np.repeat(levels, 2)[1:], np.repeat(row[2:], 2)[:-1]  # a step function, right-continuous
                lines.append(_line(seeds_label(group, len(group.runs)), index, *steps))
        if lines:
            charts.append(_chart(env, ("final success rate", "fraction of runs above"), "xy", lines))
    return charts


def _chart(title: str, axes: tuple[str, str], percent: str, lines: list[dict[str, Any]]) -> Chart:
    return {"title": escape_control(title), "x": axes[0], "y": axes[1], "percent": percent, "lines": lines}


def _curve_line(curve: GroupCurve, index: int) -> dict[str, Any]:
    line = _line(curve.label, index, curve.x, curve.iqm)
    if len(curve.seeds) > 1:
        line["seeds"] = [[_rounded(x), _rounded(y)] for x, y in curve.seeds]
    if curve.has_band:
        line["low"], line["high"] = _rounded(curve.low), _rounded(curve.high)
    return line


def _line(label: str, index: int, x: NDArray, y: NDArray) -> dict[str, Any]:
    appearance = {"index": index, "color": style.color(index), "dashes": style.dashes(index)}
    return {
        "label": escape_control(label),
        **appearance,
        "x": _rounded(x),
        "y": _rounded(y),
        "low": [],
        "high": [],
        "seeds": [],
    }


def _rounded(values: Iterable[float]) -> list[float]:
    """Return numbers with six significant digits."""
    return [float(f"{value:.6g}") for value in values]
