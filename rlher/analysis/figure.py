"""Draw learning curves with matplotlib: one panel per environment."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlher.analysis import style
from rlher.analysis.aggregation import GroupCurve
from rlher.analysis.columns import describe
from rlher.core.console import escape_control

MAX_COLUMNS = 3
"""Maximum number of panels side by side."""
LABEL_WIDTH = 58
"""Characters per line of a legend, which then is as wide as its panel."""
MAX_LABEL_LINES = 20
LEGEND_DISTANCE = 5
"""Distance of a legend from its panel, in sizes of its font; the axis label is between them."""
TIME_UNITS = ((2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))
"""Shortest run in seconds that a unit is used for, seconds per unit, unit."""


def draw(figure: Figure, curves: Sequence[GroupCurve], x: str, y: str) -> None:
    """Draw one panel per environment.

    :param figure: an empty figure, which is resized.
    :param curves: at least one.
    :param x: column of ``evaluations.csv`` on the horizontal axis.
    :param y: column on the vertical axis.
    """
    envs = list(dict.fromkeys(curve.group.env for curve in curves))
    panels = _panels(figure, [[curve for curve in curves if curve.group.env == env] for env in envs])
    scale, unit = _time_unit(curves) if x == "wall_seconds" else (1, "")
    xlabel = f"wall-clock time, {unit}" if unit else describe(x).axis
    for panel, env in zip(panels, envs, strict=True):
        for index, curve in enumerate([curve for curve in curves if curve.group.env == env]):
            _draw_curve(panel, curve, scale, index)
        title = _escape(_shorten(escape_control(env), LABEL_WIDTH))
        panel.set(title=title, xlabel=_escape(xlabel), ylabel=_escape(escape_control(describe(y).axis)))
        _format_axes(panel, x, y)
    width = figure.get_figwidth() * 16  # characters of the small font per inch
    figure.supxlabel(textwrap.fill(style.caption(curves), int(width)), fontsize="small", color="#555555")


def _panels(figure: Figure, curves: Sequence[Sequence[GroupCurve]]) -> list[Axes]:
    """Set the figure's size and return a panel for each environment's curves, with room for its legend below."""
    columns = 2 if len(curves) == 4 else min(len(curves), MAX_COLUMNS)
    rows = -(-len(curves) // columns)
    legend_lines = max(sum(_legend_label(curve).count("\n") + 1 for curve in each) for each in curves)
    figure.set_layout_engine("constrained")
    figure.set_size_inches(max(4.6 * columns, 6), (3.4 + 0.22 * legend_lines) * rows + 0.3)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[len(curves) :]:
        panel.remove()
    return panels[: len(curves)]


def _draw_curve(panel: Axes, curve: GroupCurve, scale: float, index: int) -> None:
    """Draw a group: its runs as thin lines, their interquartile mean as a thick line, and its interval as a band."""
    color, dashes = style.color(index), style.dashes(index)
    if len(curve.seeds) > 1:
        for x, y in curve.seeds:
            panel.plot(x / scale, y, color=color, linewidth=0.6, alpha=0.5)
    if curve.has_band:
        panel.fill_between(curve.x / scale, curve.low, curve.high, color=color, alpha=0.15, linewidth=0)
    linestyle: Any = (0, dashes) if dashes else "-"
    marker = "o" if len(curve.x) == 1 else None
    label = _legend_label(curve)
    panel.plot(curve.x / scale, curve.iqm, label=label, color=color, linewidth=2, linestyle=linestyle, marker=marker)


def _format_axes(panel: Axes, x: str, y: str) -> None:
    if describe(y).is_rate:
        panel.set_ylim(-0.02, 1.02)
        panel.yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.0f}%")
    if x != "wall_seconds":
        panel.xaxis.set_major_formatter(lambda steps, _: _thousands(steps))
    panel.set_xlim(left=0)
    panel.margins(x=0.02)
    panel.grid(alpha=0.3)
    # Below the panel by a length of its own: the layout moves what is placed by a share of the panel's height.
    below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": LEGEND_DISTANCE}
    panel.legend(**below, fontsize="small", frameon=False, handlelength=3)


def _legend_label(curve: GroupCurve) -> str:
    label = _shorten(escape_control(curve.label), LABEL_WIDTH * MAX_LABEL_LINES)
    return _escape(textwrap.fill(label, LABEL_WIDTH))


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _escape(text: str) -> str:
    """Escape ``$``, which starts a formula in matplotlib."""
    return text.replace("$", r"\$")


def _thousands(steps: float) -> str:
    if abs(steps) >= 1e6:
        return f"{steps / 1e6:g}M"
    return f"{steps / 1e3:g}k" if abs(steps) >= 1e3 else f"{steps:g}"


def _time_unit(curves: Iterable[GroupCurve]) -> tuple[float, str]:
    """Return the seconds per unit and the unit that suit the longest run."""
    longest = max(x.max() for curve in curves for x, _ in curve.seeds)
    return next((seconds, unit) for shortest, seconds, unit in TIME_UNITS if longest >= shortest)
