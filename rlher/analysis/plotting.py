"""`rlher plot`: learning curves of the runs there are."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlher.analysis import loading, style
from rlher.analysis.aggregation import Average, average, remarks
from rlher.analysis.loading import Group
from rlher.config.curves import PlotConfig
from rlher.core.console import warn
from rlher.core.errors import UserError, did_you_mean
from rlher.core.files import output_file
from rlher.envs.rendering import has_display
from rlher.evaluation.metrics import axis_label, is_rate

KINDS = (".png", ".pdf", ".svg")
COLUMNS = 3  # panels side by side
LABEL = 58  # letters a line of a legend, which is as wide as its panel
LINES = 20  # of a label
X = {"steps": "timesteps", "wall": "wall_seconds", "updates": "updates"}
TIMES = ((2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


def plot(config: PlotConfig) -> int:
    """Draw a panel an environment and a line a group: interquartile mean, 95 % band, and each seed thinly.

    :raises UserError: no runs, an unknown column, or a picture that cannot be written.
    """
    for name in config.output:
        if Path(name).suffix.lower() not in KINDS:
            raise UserError(f"a picture's name must end in one of {', '.join(KINDS)}, not {name!r}.")
    if config.show and not has_display():
        raise UserError(
            "--show needs a display, and there is none here; the picture is written all the same without it."
        )
    found, notes = loading.read(config.runs, config.logs)
    groups, more = loading.group(found, config.by)
    lines = averages(groups, X[config.x], config.y)
    figure = _window() if config.show else Figure()
    draw(figure, lines, X[config.x], config.y)
    for note in [*notes, *more, *remarks(lines)]:
        warn(note)
    for name in config.output or [str(Path(config.logs) / f"{config.y}.{kind}") for kind in ("png", "pdf")]:
        with output_file(Path(name)) as temporary:
            figure.savefig(temporary, dpi=150)
        print(name)
    if config.csv:
        with output_file(Path(config.csv)) as temporary:
            numbers(lines).to_csv(temporary, index=False)
        print(config.csv)
    if config.show:
        from matplotlib import pyplot

        pyplot.show()
    return 0


def _window() -> Figure:
    from matplotlib import pyplot

    return pyplot.figure()


def averages(groups: Sequence[Group], x: str, y: str) -> list[Average]:
    """Average the runs of each group that has numbers in both columns.

    :raises UserError: no run has.
    """
    known = {str(column) for group in groups for curve in group.curves for column in curve.rows}
    for column in (x, y):
        if column not in known:
            raise UserError(
                f"no run has a column {column!r}{did_you_mean(column, known)}. There are: {', '.join(sorted(known))}."
            )
    lines = [line for group in groups if (line := average(group, x, y)).seeds]
    if not lines:
        raise UserError(f"no run has a number in both its columns {x} and {y}.")
    return lines


def draw(figure: Figure, lines: Sequence[Average], x: str, y: str) -> None:
    """Draw a panel an environment.

    :param figure: an empty one, which is given its size here.
    :param lines: at least one.
    :param x: column of the evaluations that they are over.
    :param y: column that they are of.
    """
    envs = list(dict.fromkeys(line.group.env for line in lines))
    columns = 2 if len(envs) == 4 else min(len(envs), COLUMNS)
    rows = -(-len(envs) // columns)
    most = max(sum(_label(line).count("\n") + 1 for line in lines if line.group.env == env) for env in envs)
    height = 3.4 + 0.22 * most  # the legend is below its panel, and never over a curve
    figure.set_layout_engine("constrained")
    figure.set_size_inches(max(4.6 * columns, 6), height * rows)
    panels = figure.subplots(rows, columns, squeeze=False)
    scale, unit = _time_scale(lines) if x == "wall_seconds" else (1, "")
    xlabel = f"wall-clock time, {unit}" if unit else axis_label(x)
    for panel, env in zip(panels.flat, envs, strict=False):
        for index, line in enumerate([line for line in lines if line.group.env == env]):
            draw_line(panel, line, scale, index)
        panel.set(title=_plain(_cut(env, LABEL)), xlabel=_plain(xlabel), ylabel=_plain(axis_label(y)))
        _dress(panel, x, y)
    for panel in list(panels.flat)[len(envs) :]:
        panel.remove()


def draw_line(panel: Axes, line: Average, scale: float, index: int) -> None:
    """Draw each run thinly and, as far as all runs of the group have come, their interquartile mean and its band."""
    color, dashes = style.color(index), style.dashes(index)
    if len(line.seeds) > 1:
        for x, y in line.seeds:
            panel.plot(x / scale, y, color=color, linewidth=0.6, alpha=0.5)
        panel.fill_between(line.x / scale, line.low, line.high, color=color, alpha=0.15, linewidth=0)
    linestyle: Any = (0, dashes) if dashes else "-"
    marker = "o" if len(line.x) == 1 else None
    panel.plot(
        line.x / scale, line.iqm, label=_label(line), color=color, linewidth=2, linestyle=linestyle, marker=marker
    )


def _label(line: Average) -> str:
    label = _cut(line.group.label, LABEL * LINES)
    return _plain(textwrap.fill(f"{label} ({style.seeds(len(line.seeds))})", LABEL))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _plain(text: str) -> str:
    """Keep matplotlib from setting a text as a formula, or failing to."""
    return text.replace("$", r"\$")


def numbers(lines: Iterable[Average]) -> pd.DataFrame:
    """Return what is drawn: a row a point of a line, with the ends of its band (NaN without one)."""
    rows = [
        (line.group.env, line.group.label, len(line.seeds), *point)
        for line in lines
        for point in zip(line.x, line.iqm, line.low, line.high, strict=True)
    ]
    return pd.DataFrame(rows, columns=["env", "group", "seeds", "x", "iqm", "low", "high"])


def _dress(panel: Axes, x: str, y: str) -> None:
    if is_rate(y):
        panel.set_ylim(-0.02, 1.02)
        panel.yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.0f} %")
    if x != "wall_seconds":
        panel.xaxis.set_major_formatter(lambda steps, _: _thousands(steps))
    panel.set_xlim(left=0)
    panel.margins(x=0.02)
    panel.grid(alpha=0.3)
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize="small", frameon=False, handlelength=3)


def _thousands(steps: float) -> str:
    if abs(steps) >= 1e6:
        return f"{steps / 1e6:g}M"
    return f"{steps / 1e3:g}k" if abs(steps) >= 1e3 else f"{steps:g}"


def _time_scale(lines: Iterable[Average]) -> tuple[float, str]:
    longest = max(x.max() for line in lines for x, _ in line.seeds)
    return next((seconds, unit) for least, seconds, unit in TIMES if longest >= least)
