"""Draw learning curves with matplotlib for `rlher plot`, and as SVG for `rlher report`."""

import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from rlher.analysis.curves import EVALUATION_RATES, X_AXES, GroupCurve, load_curves
from rlher.analysis.grouping import group_by, mean_text, output_beside, seeds_text
from rlher.analysis.loading import without_section
from rlher.config.command_configs import PlotConfig
from rlher.core.errors import UserError
from rlher.core.matplotlib_settings import FIGURE_SETTINGS
from rlher.core.stats import MIN_SEEDS
from rlher.core.writing import output_file
from rlher.evaluation.metrics import METRICS
from rlher.run.run_folder import safe_name

SUFFIXES = (".png", ".pdf", ".svg")

# The colour-blind safe palette of Okabe and Ito. Neighbours differ in lightness as well, and dashes tell lines apart in
# greyscale. The style sheet of the report replaces two colours in dark mode.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
DASHES = ("-", (0, (3.7, 1.6)), (0, (6.4, 1.6, 1, 1.6)), (0, (1, 1.65)), (0, (5, 1, 1, 1, 1, 1)))
"""Line styles; the numbers are lengths on and off in line widths."""

STYLE_SHEETS = {"screen": ["rlher.analysis.screen"], "paper": ["default", "rlher.analysis.paper"]}
"""Style sheets of matplotlib by the values of ``--style``. A figure for the screen keeps the user's own settings."""


DIAGNOSTICS = {
    "object_moved": "training episodes in which the achieved goal moved",
    "success_at_reset": "training episodes at their goal from the start",
    "action_saturation": "action entries at their bounds",
}
"""Labels of the columns of the training log that may show why an agent does not learn."""
Y_LABELS = {metric.name: metric.axis for metric in METRICS} | DIAGNOSTICS
Y_LABELS["rollout/success_rate"] = "success rate of training episodes"
"""Labels of columns. A column of ``progress.csv`` may be listed without its section. Other columns show their name."""
RATES = {*EVALUATION_RATES, *DIAGNOSTICS}
"""Columns that lie in [0, 1] and are shown in per cent, without their section."""

LineStyles = Mapping[str, Mapping[str, Any]]
"""Colour and dashes of a line by the label of its group."""


MAX_COLUMNS = 3
"""Maximum number of panels side by side."""
MAX_WITH_RUNS = 2
"""Maximum number of groups with bands whose runs are drawn as well; more are hard to tell from each other."""
LABEL_CHARACTERS = 28
"""Characters per line of a vertical label."""
LEGEND_CHARACTERS = 36
"""Characters per line of a legend."""


def plot(config: PlotConfig) -> list[str]:
    """Draw one panel per environment and one line per group of runs, and return the written files.

    :raises UserError: there are no runs, a column is unknown, or a picture cannot be written.
    """
    for name in config.output:
        if Path(name).suffix.lower() not in SUFFIXES:
            raise UserError(f"output={name!r} is not a picture; use a name that ends in one of {', '.join(SUFFIXES)}.")
    figure = draw_runs(config)
    stem = safe_name(without_section(config.y))
    pictures = config.output or [str(output_beside(config, f"{stem}{suffix}")) for suffix in SUFFIXES[:2]]
    for name in pictures:
        picture = io.BytesIO()  # on a full disk the PDF writer raises an error that is no OSError
        figure.savefig(picture, format=Path(name).suffix[1:].lower())
        with output_file(Path(name)) as temporary:
            temporary.write_bytes(picture.getvalue())
    if config.csv:
        with output_file(Path(config.csv)) as temporary:
            figure.numbers.to_csv(temporary, index=False)
    return [*pictures, config.csv] if config.csv else pictures


class CurvesFigure(Figure):
    """A figure that writes files with TrueType fonts. A notebook shows it once, as value or at the end of a cell."""

    numbers: pd.DataFrame
    """The drawn numbers, one row per point of a line; ``low`` and ``high`` are NaN without a band."""

    def savefig(self, *arguments: Any, **keywords: Any) -> None:
        """Save the figure, with the fonts of :data:`FIGURE_SETTINGS`."""
        keywords.setdefault("dpi", 300)
        with matplotlib.rc_context(FIGURE_SETTINGS):
            super().savefig(*arguments, **keywords)

    def _ipython_display_(self) -> None:
        from IPython.display import Image, display
        from matplotlib import pyplot

        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=max(100, 600 / self.get_figwidth()))
        display(Image(picture.getvalue()))
        pyplot.close(self)


def draw_runs(config: PlotConfig, for_pyplot: bool = False) -> CurvesFigure:
    """Draw the runs that a config selects.

    :param for_pyplot: make the figure pyplot's current figure. This may start a GUI toolkit.
    :raises UserError: there are no runs, or a column is unknown.
    """
    curves = load_curves(config)
    if for_pyplot:
        from matplotlib import pyplot
    figure: Any = pyplot.figure(FigureClass=CurvesFigure) if for_pyplot else CurvesFigure()
    keys = [(curve.group.env, curve.group.label, curve.n_seeds) for curve in curves]
    numbers = pd.concat([curve.summary for curve in curves], keys=keys, names=["env", "group", "seeds", "x"])
    figure.numbers = numbers.reset_index()
    with matplotlib.style.context([*STYLE_SHEETS[config.style], FIGURE_SETTINGS]):
        _draw(figure, curves, config)
        figure.draw_without_rendering()  # matplotlib makes tick labels when it draws them, in the style of that moment
    return figure


def draw_on(panel: Axes, config: PlotConfig) -> None:
    """Draw the runs that a config selects on axes of the caller's figure, with the caller's settings of matplotlib.

    The lines have labels for a legend. The figure keeps its size. ``style`` only decides whether single runs are drawn.

    :raises UserError: there are no runs, a column is unknown, or the runs have several environments.
    """
    curves = load_curves(config)
    if len(envs := {curve.group.env for curve in curves}) > 1:
        raise UserError(f"ax takes runs of one environment, not of {', '.join(sorted(envs))}; call plot for each.")
    line_styles = choose_line_styles(curves, len(panel.get_legend_handles_labels()[1]))
    with matplotlib.rc_context(FIGURE_SETTINGS):
        _draw_panel(panel, curves, config, line_styles)


def _draw(figure: Figure, curves: Sequence[GroupCurve], config: PlotConfig) -> None:
    """Draw one panel per environment, with one legend and a caption below.

    :param figure: an empty figure. The function resizes it.
    :param curves: the curves, at least one.
    :param config: axes, texts, size and style.
    """
    by_env = group_by(curves, lambda curve: curve.group.env)
    columns = 2 if len(by_env) == 4 else min(len(by_env), MAX_COLUMNS)
    rows = ceil(len(by_env) / columns)
    if config.figsize:
        width, height = config.figsize
    elif config.style == "paper":
        width, height = (3.25 if columns == 1 else 6.75), 1.9 * rows
    else:
        width, height = max(4.6 * columns, 6), 3.4 * rows
    figure.set_layout_engine("constrained")
    figure.set_size_inches(width, height)
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=is_rate(config.y)).flat)
    for panel in panels[len(by_env) :]:
        panel.remove()
    line_styles = choose_line_styles(curves)
    panel_config = config if len(by_env) == 1 else replace(config, title=None)
    for index, (panel, members) in enumerate(zip(panels, by_env.values(), strict=False)):
        _draw_panel(panel, members, panel_config, line_styles)
        if index % columns:
            panel.set_ylabel("")
    _draw_legend(figure, panels[: len(by_env)], curves, config)
    if config.style != "paper" and not config.figsize:
        text = caption(curves, config.y, config.smooth)
        figure.supxlabel(text, fontsize="small", color="#555555", wrap=True)


def to_svg(curves: Sequence[GroupCurve], y: str, line_styles: LineStyles, with_legend: bool) -> str:
    """Return one panel over steps as an SVG element, without title and background, and with selectable text.

    :param curves: curves of one environment. Curves without points are left out.
    :param y: column of the vertical axis.
    :param line_styles: as :func:`choose_line_styles` returns them.
    """
    config = PlotConfig(y=y, title="")
    with matplotlib.style.context([*STYLE_SHEETS[config.style], FIGURE_SETTINGS, {"svg.fonttype": "none"}]):
        figure = Figure(figsize=(4.6, 2.8), layout="constrained")  # its text stays readable on a phone
        panel = figure.subplots()
        _draw_panel(panel, curves, config, line_styles)
        if with_legend:
            _draw_legend(figure, [panel], curves, config)
        picture = io.StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(picture, format="svg", transparent=True, metadata=metadata)
    svg = picture.getvalue()
    return svg[svg.index("<svg") :]


def y_label(column: str) -> str:
    """Return the label of a column, with its unit."""
    return Y_LABELS.get(column) or Y_LABELS.get(without_section(column)) or column.replace("_", " ")


def is_rate(column: str) -> bool:
    """Return whether a column is shown in per cent."""
    return without_section(column) in RATES


def choose_line_styles(curves: Iterable[GroupCurve], first: int = 0) -> LineStyles:
    """Return colour and dashes by group label. A label has the same line style in all environments.

    :param first: number of lines that are already drawn.
    """
    return {
        label: {"color": COLORS[index % len(COLORS)], "linestyle": DASHES[index % len(DASHES)]}
        for index, label in enumerate(dict.fromkeys(curve.group.label for curve in curves), first)
    }


def _draw_panel(panel: Axes, curves: Sequence[GroupCurve], config: PlotConfig, line_styles: LineStyles) -> None:
    """Draw the groups of one environment: runs as thin lines, the interquartile mean as a thick line with a band.

    :param config: axes, title and style.
    """
    axis = X_AXES[config.x]
    non_empty = [curve for curve in curves if curve.run_curves]
    has_room = len(non_empty) <= MAX_WITH_RUNS and config.style != "paper"
    for curve in non_empty:
        line_style, summary = line_styles[curve.group.label], curve.summary
        color = line_style["color"]
        if curve.n_seeds > 1 and (has_room or not curve.has_band):
            for run_curve in curve.run_curves:
                panel.plot(run_curve.index / axis.unit, run_curve, color=color, linewidth=0.6, alpha=0.5)
        if curve.has_band:
            shade = {"color": color, "alpha": min(0.15, 0.4 / len(non_empty)), "linewidth": 0}
            panel.fill_between(summary.index / axis.unit, summary["low"], summary["high"], **shade)
        point: dict[str, Any] = {"marker": "o", "clip_on": False} if len(summary) == 1 else {}  # it may be on the axis
        panel.plot(summary.index / axis.unit, summary["iqm"], **line_style, **point, label=curve.group.label)
    panel.set(xlabel=axis.label, ylabel=textwrap.fill(y_label(config.y), LABEL_CHARACTERS))
    if is_rate(config.y):
        panel.set_ylim(-0.02, 1.02)
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if axis.unit == 1:
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))  # 10k
    panel.locator_params(nbins=5)
    panel.set_xlim(left=0)
    panel.margins(x=0.02)
    panel.grid(alpha=0.3)
    env = textwrap.shorten(curves[0].group.env, 58, placeholder="…")
    # Axes of the user would draw formulas.
    panel.set_title(env if config.title is None else config.title, parse_math=False)


def _draw_legend(figure: Figure, panels: Sequence[Axes], curves: Sequence[GroupCurve], config: PlotConfig) -> None:
    """Draw one legend for all panels, and the title that several panels have in common.

    A legend above the panels has as many columns as fit. A figure without ``figsize`` grows by the legend's height.
    """
    title = (config.title or None) if len(panels) > 1 else None
    lines = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    texts = []
    for label in lines:
        seeds = [curve.n_seeds for curve in curves if curve.group.label == label]
        text = label if config.style == "paper" else f"{label} ({seeds_text(seeds)})"
        texts.append(textwrap.fill(text, LEGEND_CHARACTERS, max_lines=20, placeholder="…"))
    place: dict[str, Any] = {"loc": "outside upper center", "frameon": False, "title_fontsize": "large"}
    for columns in range(len(texts), 0, -1):
        legend = figure.legend(lines.values(), texts, title=title, ncols=columns, **place)
        if legend.get_window_extent().width <= figure.bbox.width or columns == 1:
            break
        legend.remove()
    if not config.figsize:
        figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)


def caption(curves: Sequence[GroupCurve], y: str, smooth: int = 1) -> str:
    """Return a text that explains the lines and bands of the charts."""
    seeds = {curve.n_seeds for curve in curves}
    if max(seeds, default=1) == 1:
        parts = ["Each line is a single run."]
    else:
        wilson = ", at least Wilson's over all episodes" if y in EVALUATION_RATES else ""
        band = f"No band: an interval needs {MIN_SEEDS} seeds."
        if any(curve.has_band for curve in curves):
            band = f"Band: 95 % bootstrap interval of {MIN_SEEDS} or more seeds{wilson}."
        parts = [f"Thick line: {mean_text(seeds)} over seeds.", "Thin lines, if any: single seeds.", band]
    if smooth > 1:
        parts.append(f"Smoothed over {smooth} points.")
    return " ".join(parts)
