"""What the page's script draws: learning curves and performance profiles, as plain numbers."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.analysis import comparison, style
from rlher.analysis.aggregation import Average, average
from rlher.analysis.loading import Group
from rlher.evaluation.metrics import axis_label

Chart = dict[str, Any]
"""``title``, ``x`` and ``y`` (names of the axes), ``percent`` (which are in per cent) and ``lines``.

A line has ``label``, ``color``, ``dashes``, ``x``, ``y``, ``low`` and ``high`` (the band, empty without one), and
``seeds``, [x, y] of each."""


X, Y = "timesteps", "success_rate"


def averages(groups: Sequence[Group]) -> list[Average]:
    """Average what the curves are of: success rate over environment steps."""
    return [average(group, X, Y) for group in groups]


def learning_curves(lines: Sequence[Average]) -> list[Chart]:
    """Return a chart an environment, as `rlher plot` draws it."""
    charts = []
    for env in dict.fromkeys(line.group.env for line in lines):
        mine = [line for line in lines if line.group.env == env]
        drawn = [_curve(line, index) for index, line in enumerate(mine)]
        charts.append(_chart(env, (axis_label(X), axis_label(Y)), "y", drawn))
    return charts


def profiles(groups: Sequence[Group]) -> list[Chart]:
    """Return a chart an environment: the share of runs whose final success rate is above each level.

    Groups with too few runs have no line, but keep their colours.
    """
    charts = []
    for env in dict.fromkeys(group.env for group in groups):
        lines = []
        for index, group in enumerate(group for group in groups if group.env == env):
            levels = np.unique([0, *comparison.finals_of(group), 1])
            for row in comparison.profiles([group], levels.tolist()).itertuples(index=False):
                steps = np.repeat(levels, 2)[1:], np.repeat(row[2:], 2)[:-1]  # it falls at the runs' own rates
                lines.append(_line(_label(group, len(group.curves)), index, *steps))
        if lines:
            charts.append(_chart(env, ("final success rate", "share of runs above"), "xy", lines))
    return charts


def _chart(title: str, axes: tuple[str, str], percent: str, lines: list[dict[str, Any]]) -> Chart:
    return {"title": title, "x": axes[0], "y": axes[1], "percent": percent, "lines": lines}


def _curve(line: Average, index: int) -> dict[str, Any]:
    drawn = _line(_label(line.group, len(line.seeds)), index, line.x, line.iqm)
    if len(line.seeds) > 1:
        drawn["low"], drawn["high"] = _rounded(line.low), _rounded(line.high)
        drawn["seeds"] = [[_rounded(x), _rounded(y)] for x, y in line.seeds]
    return drawn


def _line(label: str, index: int, x: NDArray, y: NDArray) -> dict[str, Any]:
    look_of = {"label": label, "color": style.color(index), "dashes": style.dashes(index)}
    return {**look_of, "x": _rounded(x), "y": _rounded(y), "low": [], "high": [], "seeds": []}


def _label(group: Group, count: int) -> str:
    return f"{group.label} ({style.seeds(count)})"


def _rounded(values: Iterable[float]) -> list[float]:
    """Shorten numbers to what can be seen."""
    return [float(f"{value:.6g}") for value in values]
