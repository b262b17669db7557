"""`rlher plot`: draw learning curves with matplotlib. `rlher report` embeds the same curves as SVG."""

import io
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import rlher.core.matplotlib_settings  # noqa: F401  # before matplotlib

# isort: split
import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from rlher.analysis.aggregation import MIN_SEEDS, GroupCurve, aggregate_all
from rlher.analysis.columns import describe, short_name
from rlher.analysis.grouping import load_groups
from rlher.config.commands import PlotConfig
from rlher.core.console import escape_control, warn
from rlher.core.errors import UserError
from rlher.core.files import output_file
from rlher.envs.rendering import has_display
from rlher.run.run_folder import safe_name

SUFFIXES = (".png", ".pdf", ".svg")
X_COLUMNS = {"steps": "timesteps", "wall": "wall_seconds", "updates": "updates"}
"""Columns by the values of ``--x``."""

# The colour-blind safe palette of Okabe and Ito. Neighbours differ in lightness as well, and dashes tell lines apart in
# greyscale. The style sheet of the report replaces two colours in dark mode.
COLORS = ("#0072B2", "#E69F00", "#000000", "#CC79A7", "#009E73", "#D55E00", "#56B4E9")
DASHES = ("-", (0, (3.7, 1.6)), (0, (6.4, 1.6, 1, 1.6)), (0, (1, 1.65)), (0, (5, 1, 1, 1, 1, 1)))
"""Line styles; the numbers are lengths on and off in line widths."""

STYLES: dict[str, Any] = {
    "screen": {},
    "paper": {"font.family": "serif", "font.size": 8, "axes.titlesize": 8},
}
"""matplotlib's settings by the values of ``--style``."""

MAX_COLUMNS = 3
"""Maximum number of panels side by side."""
LABEL_WIDTH = 58
"""Characters per line of a legend, which then is as wide as its panel."""
LINE_HEIGHT = 0.22
"""Height of a line of the legend, in inches."""
LEGEND_DISTANCE = 5
"""Distance between a panel and its legend, in sizes of the legend's font; the label of the axis is between them."""


def plot(config: PlotConfig) -> int:
    """Draw one panel per environment and one line per group of runs.

    :raises UserError: no runs, an unknown column, or a picture that cannot be written or shown.
    """
    for name in config.output:
        if Path(name).suffix.lower() not in SUFFIXES:
            raise UserError(f"output={name!r} is not a picture; use a name that ends in one of {', '.join(SUFFIXES)}.")
    if config.show and not has_display():
        raise UserError("--show needs a display, and this machine has none; write a picture without --show.")
    if config.show:
        from matplotlib import pyplot  # starts a GUI toolkit
    figure = pyplot.figure() if config.show else Figure()
    curves = draw_runs(config, figure)
    stem = safe_name("-".join([short_name(config.y), *(Path(run).name for run in config.runs)]))[:100]
    for name in config.output or [str(Path(config.logs) / f"{stem}{suffix}") for suffix in SUFFIXES[:2]]:
        picture = io.BytesIO()  # on a full disk the PDF writer raises an error that is no OSError
        figure.savefig(picture, dpi=300 if config.style == "paper" else 150, format=Path(name).suffix[1:].lower())
        with output_file(Path(name)) as temporary:
            temporary.write_bytes(picture.getvalue())
        print(name)
    if config.csv:
        with output_file(Path(config.csv)) as temporary:
            to_frame(curves).to_csv(temporary, index=False)
        print(config.csv)
    if config.show:
        pyplot.show()
    return 0


class NotebookFigure(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()


def draw_runs(config: PlotConfig, figure: Figure) -> list[GroupCurve]:
    """Draw the runs that a config selects, and return their curves.

    :param figure: an empty figure, which is resized.
    :raises UserError: no runs, or an unknown column.
    """
    x = X_COLUMNS[config.x]
    groups, notes = load_groups(config.runs, config.logs, config.by)
    curves = aggregate_all(groups, x, config.y, config.smooth)
    with matplotlib.rc_context(STYLES[config.style]):
        draw(figure, curves, config)
    for note in notes:
        warn(note)
    return curves


def to_frame(curves: Iterable[GroupCurve]) -> pd.DataFrame:
    """Return the drawn numbers, one row per point of a line; ``low`` and ``high`` are NaN without a band."""
    rows = [
        (curve.group.env, curve.group.label, len(curve.seeds), *point)
        for curve in curves
        for point in zip(curve.x, curve.iqm, curve.low, curve.high, strict=True)
    ]
    return pd.DataFrame(rows, columns=["env", "group", "seeds", "x", "iqm", "low", "high"])


def draw(figure: Figure, curves: Sequence[GroupCurve], config: PlotConfig) -> None:
    """Draw one panel per environment, with a legend below each panel and a caption below all.

    :param figure: an empty figure, which is resized.
    :param curves: at least one.
    :param config: axes, texts, size and style.
    """
    by_env: dict[str, list[GroupCurve]] = {}
    for curve in curves:
        by_env.setdefault(curve.group.env, []).append(curve)
    columns = min(len(by_env), MAX_COLUMNS)
    rows = -(-len(by_env) // columns)
    figure.set_layout_engine("constrained")
    size = max(4.6 * columns, 6), (3.4 + max(map(_legend_height, by_env.values()))) * rows + 0.3
    figure.set_size_inches(*(config.figsize or size))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[len(by_env) :]:
        panel.remove()
    for panel, (env, members) in zip(panels, by_env.items(), strict=False):
        _draw_panel(panel, members, X_COLUMNS[config.x], config.y)
        labels = {"xlabel": config.xlabel, "ylabel": config.ylabel}
        panel.set(**{name: escape_control(text) for name, text in labels.items() if text is not None})
        panel.set_title(_wrap(env if config.title is None or len(by_env) > 1 else config.title, lines=1))
        _draw_legend(panel)
    if config.title and len(by_env) > 1:
        figure.suptitle(escape_control(config.title))
    if config.style == "paper":
        return
    width = figure.get_figwidth() * 16  # characters of the small font per inch
    figure.supxlabel(textwrap.fill(caption(curves), int(width)), fontsize="small", color="#555555")


def to_svg(curves: Sequence[GroupCurve], x: str, y: str, with_legend: bool) -> str:
    """Return one panel as an SVG element, without background and with selectable text.

    :param curves: of one environment. Curves without points are left out, but count for the colours of the others.
    """
    height = 2.8 + (_legend_height(curves) if with_legend else 0)
    figure = Figure(figsize=(4.6, height), layout="constrained")  # its text stays readable on a phone
    panel = figure.subplots()
    _draw_panel(panel, curves, x, y)
    if with_legend:
        _draw_legend(panel)
    picture = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(picture, format="svg", transparent=True, metadata=metadata)
    svg = picture.getvalue()
    return svg[svg.index("<svg") :]


def _draw_panel(panel: Axes, curves: Sequence[GroupCurve], x: str, y: str) -> None:
    for index, curve in enumerate(curves):
        if curve.seeds:
            _draw_curve(panel, curve, describe(x).unit, COLORS[index % len(COLORS)], DASHES[index % len(DASHES)])
    panel.set(xlabel=describe(x).axis, ylabel=escape_control(describe(y).axis))
    if describe(y).is_rate:
        panel.set_ylim(-0.02, 1.02)
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if x != "wall_seconds":
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))  # 10k
    panel.set_xlim(left=0)
    panel.margins(x=0.02)
    panel.grid(alpha=0.3)


def _draw_curve(panel: Axes, curve: GroupCurve, unit: float, color: str, linestyle: Any) -> None:
    """Draw a group: its runs as thin lines, their interquartile mean as a thick line, and its interval as a band."""
    if len(curve.seeds) > 1:
        for x, y in curve.seeds:
            panel.plot(x / unit, y, color=color, linewidth=0.6, alpha=0.5)
    if curve.has_band:
        panel.fill_between(curve.x / unit, curve.low, curve.high, color=color, alpha=0.15, linewidth=0)
    marker = "o" if len(curve.x) == 1 else None
    label = _legend_label(curve)
    panel.plot(curve.x / unit, curve.iqm, label=label, color=color, linewidth=2, linestyle=linestyle, marker=marker)


def _draw_legend(panel: Axes) -> None:
    # An offset in font sizes is the same for every panel; one in shares of the panel's height would vary with it.
    below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": LEGEND_DISTANCE}
    panel.legend(**below, fontsize="small", frameon=False, handlelength=3)


def _legend_height(curves: Iterable[GroupCurve]) -> float:
    return LINE_HEIGHT * sum(_legend_label(curve).count("\n") + 1 for curve in curves)


def _legend_label(curve: GroupCurve) -> str:
    return _wrap(curve.label, lines=20)


def _wrap(text: str, lines: int) -> str:
    return textwrap.fill(text, LABEL_WIDTH, max_lines=lines, placeholder="…")


def caption(curves: Sequence[GroupCurve]) -> str:
    """Return a text that explains the lines and bands of a chart."""
    seeds = {len(curve.seeds) for curve in curves}
    if max(seeds, default=1) == 1:
        return "Each line is a single run."
    single = " (a single run if there is one seed)" if 1 in seeds else ""
    iqm = "interquartile mean over seeds" if max(seeds) >= 4 else "mean over seeds"
    band = f"No band: an interval needs {MIN_SEEDS} seeds."
    if any(curve.has_band for curve in curves):
        wilson = ", at least Wilson's over their episodes" if any(curve.is_wilson for curve in curves) else ""
        fewer = "" if all(curve.has_band for curve in curves) else f"; none with fewer than {MIN_SEEDS} seeds"
        band = f"Band: 95 % interval, bootstrap over seeds{wilson}{fewer}."
    return f"Thick line: {iqm}{single}. Thin lines: seeds. {band}"
