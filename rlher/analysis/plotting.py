"""`rlher plot`: write learning curves as pictures and CSV, or show them in a window."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from rlher.analysis.aggregation import GroupCurve, aggregate_all, downsampling_notes
from rlher.analysis.columns import short_name
from rlher.analysis.figure import draw
from rlher.analysis.grouping import group_runs
from rlher.analysis.loading import read_runs
from rlher.config.curves import PlotConfig
from rlher.core.console import warn
from rlher.core.errors import UserError
from rlher.core.files import output_file
from rlher.envs.rendering import has_display

SUFFIXES = (".png", ".pdf", ".svg")
X_COLUMNS = {"steps": "timesteps", "wall": "wall_seconds", "updates": "updates"}
"""Columns by the values of ``--x``."""


def plot(config: PlotConfig) -> int:
    """Draw one panel per environment and one line per group of runs.

    :raises UserError: no runs, an unknown column, or a picture that cannot be written or shown.
    """
    _validate(config)
    x, y = X_COLUMNS[config.x], config.y
    runs, skipped = read_runs(config.runs, config.logs)
    groups, notes = group_runs(runs, config.by)
    curves = aggregate_all(groups, x, y)
    figure = _new_window() if config.show else Figure()
    draw(figure, curves, x, y)
    for note in [*skipped, *notes, *downsampling_notes(curves)]:
        warn(note)
    for name in config.output or [str(Path(config.logs) / f"{short_name(y)}{suffix}") for suffix in SUFFIXES[:2]]:
        with output_file(Path(name)) as temporary:
            figure.savefig(temporary, dpi=150)
        print(name)
    if config.csv:
        with output_file(Path(config.csv)) as temporary:
            to_frame(curves).to_csv(temporary, index=False)
        print(config.csv)
    if config.show:
        _show_window()
    return 0


def _validate(config: PlotConfig) -> None:
    """Raise UserError if a picture has an unknown suffix or a window is asked for without a display."""
    for name in config.output:
        if Path(name).suffix.lower() not in SUFFIXES:
            raise UserError(f"output={name!r} is not a picture; use a name that ends in one of {', '.join(SUFFIXES)}.")
    if config.show and not has_display():
        raise UserError("--show needs a display, and this machine has none; write a picture without --show.")


def to_frame(curves: Iterable[GroupCurve]) -> pd.DataFrame:
    """Return the drawn numbers, one row per point of a line; ``low`` and ``high`` are NaN without a band."""
    rows = [
        (curve.group.env, curve.group.label, len(curve.seeds), *point)
        for curve in curves
        for point in zip(curve.x, curve.iqm, curve.low, curve.high, strict=True)
    ]
    return pd.DataFrame(rows, columns=["env", "group", "seeds", "x", "iqm", "low", "high"])


def _new_window() -> Figure:
    from matplotlib import pyplot  # starts a GUI toolkit

    return pyplot.figure()


def _show_window() -> None:
    from matplotlib import pyplot

    pyplot.show()
