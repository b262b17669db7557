"""`rlher plot`: learning curves of the runs there are."""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlher import curves, stats
from rlher.config import PlotConfig
from rlher.curves import Group
from rlher.display import has_display
from rlher.errors import UserError, closest
from rlher.files import replacing

KINDS = (".png", ".pdf", ".svg")
COLUMNS = 3  # panels side by side
# Okabe and Ito's colours, told apart by all kinds of colour vision, ordered so that neighbours differ in lightness too;
# styles tell lines apart on paper.
COLORS = ("#0072B2", "#E69F00", "#000000", "#CC79A7", "#009E73", "#D55E00", "#56B4E9")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
RATES = ("success_rate", "reached_rate", "crash_rate")
AXES = {
    "timesteps": "environment steps",
    "updates": "gradient updates",
    "success_rate": "evaluation success rate",
    "reached_rate": "rate of episodes that reached the goal at any step",
    "crash_rate": "crash rate",
    "mean_reward": "mean return",
    "mean_length": "mean episode length, steps",
}
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
    found, notes = curves.read(config.runs, config.logs)
    groups, more = curves.group(found, config.by)
    _require_columns(groups, X[config.x], config.y)
    figure = _window() if config.show else Figure()
    drawn = draw(figure, groups, X[config.x], config.y)
    for line in [*notes, *more]:
        print(f"rlher: {line}", file=sys.stderr)
    for name in config.output or [str(Path(config.logs) / f"{config.y}.{kind}") for kind in ("png", "pdf")]:
        _write(Path(name), figure)
    if config.csv:
        _write_csv(Path(config.csv), drawn)
    if config.show:
        from matplotlib import pyplot

        pyplot.show()
    return 0


def _require_columns(groups: list[Group], *columns: str) -> None:
    known = {str(column) for group in groups for curve in group.curves for column in curve.rows}
    for column in columns:
        if column not in known:
            raise UserError(
                f"no run has a column {column!r}{closest(column, known)}. There are: {', '.join(sorted(known))}."
            )


def _window() -> Figure:
    from matplotlib import pyplot

    return pyplot.figure()


def draw(figure: Figure, groups: list[Group], x: str, y: str) -> pd.DataFrame:
    """Draw the groups' curves.

    :param figure: an empty one, which is given its size here.
    :param x: column of the evaluations to draw over.
    :param y: column to draw.
    :return: what is shown: a row a point of a line, with the ends of its band (NaN without one).
    """
    groups = [group for group in groups if any(x in curve.rows and y in curve.rows for curve in group.curves)]
    envs = list(dict.fromkeys(group.env for group in groups))
    columns = 2 if len(envs) == 4 else min(len(envs), COLUMNS)
    rows = -(-len(envs) // columns)
    most = max(sum(group.env == env for group in groups) for env in envs)
    height = 3.4 + 0.22 * most  # the legend is below its panel, and never over a curve
    figure.set_layout_engine("constrained")
    figure.set_size_inches(max(4.6 * columns, 6), height * rows)
    panels = figure.subplots(rows, columns, squeeze=False)
    scale, unit = _time_scale(groups) if x == "wall_seconds" else (1, "")
    drawn = []
    for panel, env in zip(panels.flat, envs, strict=False):
        mine = [group for group in groups if group.env == env]
        for index, group in enumerate(mine):
            look = {"color": COLORS[index % len(COLORS)], "linestyle": STYLES[index % len(STYLES)]}
            drawn += draw_group(panel, group, x, y, scale, look)
        panel.set(title=env, xlabel=f"wall-clock time, {unit}" if unit else AXES.get(x, x), ylabel=AXES.get(y, y))
        _dress(panel, x, y)
    for panel in list(panels.flat)[len(envs) :]:
        panel.remove()
    return pd.DataFrame(drawn, columns=["env", "group", "seeds", "x", "iqm", "low", "high"])


def draw_group(
    panel: Axes, group: Group, x: str, y: str, scale: float, look: dict[str, Any]
) -> list[tuple[str, str, int, float, float, float, float]]:
    """Draw each run thinly and, as far as all runs of the group have come, their interquartile mean and its band."""
    lines = [curve for curve in group.curves if x in curve.rows and y in curve.rows]
    count = len(lines)
    label = f"{group.label} ({count} seed{'s' if count != 1 else ''})"
    grid, values = curves.common_grid(lines, x, y)
    if count > 1:
        for curve in lines:
            panel.plot(curve.rows[x] / scale, curve.rows[y], color=look["color"], linewidth=0.6, alpha=0.5)
    middle = stats.iqm(values) if len(grid) else grid
    panel.plot(grid / scale, middle, label=label, linewidth=2, marker="o" if len(grid) == 1 else None, **look)
    band = stats.interval([values]) if len(grid) else None
    low, high = band or (middle * float("nan"), middle * float("nan"))
    if band:
        panel.fill_between(grid / scale, low, high, color=look["color"], alpha=0.15, linewidth=0)
    return [(group.env, group.label, count, *point) for point in zip(grid, middle, low, high, strict=True)]


def _dress(panel: Axes, x: str, y: str) -> None:
    if y in RATES:
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


def _time_scale(groups: list[Group]) -> tuple[float, str]:
    longest = max(
        curve.rows["wall_seconds"].max() for group in groups for curve in group.curves if "wall_seconds" in curve.rows
    )
    return next((seconds, unit) for least, seconds, unit in TIMES if longest >= least)


def _write(path: Path, figure: Figure) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}.") from error
    print(path)


def _write_csv(path: Path, drawn: pd.DataFrame) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            drawn.to_csv(temporary, index=False)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}.") from error
    print(path)
