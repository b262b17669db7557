"""Colours, dashes and captions shared by `rlher plot` and `rlher report`."""

from collections.abc import Sequence

from rlher.analysis.aggregation import MIN_SEEDS, GroupCurve

# The colour-blind safe palette of Okabe and Ito, ordered so that neighbours differ in lightness too. Dashes tell lines
# apart in greyscale.
COLORS = ("#0072B2", "#E69F00", "#000000", "#CC79A7", "#009E73", "#D55E00", "#56B4E9")
DASHES: tuple[tuple[float, ...], ...] = ((), (3.7, 1.6), (6.4, 1.6, 1, 1.6), (1, 1.65), (5, 1, 1, 1, 1, 1))
"""Lengths on and off in line widths; empty: solid."""


def color(index: int) -> str:
    """Return the colour of the line at an index of its chart, ``#RRGGBB``."""
    return COLORS[index % len(COLORS)]


def dashes(index: int) -> tuple[float, ...]:
    """Return the dashes of the line at an index of its chart, as in :data:`DASHES`."""
    return DASHES[index % len(DASHES)]


def caption(curves: Sequence[GroupCurve]) -> str:
    """Return a text that explains the lines and bands of a chart."""
    seeds = {len(curve.seeds) for curve in curves}
    if max(seeds, default=1) == 1:
        return "Each line is a single run."
    single = " (a single run if there is one seed)" if 1 in seeds else ""
    iqm = "interquartile mean over seeds" if max(seeds) >= 4 else "mean over seeds"
    return f"Thick line: {iqm}{single}. Thin lines: seeds. {_band(curves)}"


def _band(curves: Sequence[GroupCurve]) -> str:
    """Return a sentence about the bands."""
    if not any(curve.has_band for curve in curves):
        return f"No band: an interval needs {MIN_SEEDS} seeds."
    wilson = ", at least Wilson's over their episodes" if any(curve.is_wilson for curve in curves) else ""
    fewer = "" if all(curve.has_band for curve in curves) else f"; none with fewer than {MIN_SEEDS} seeds"
    return f"Band: 95 % interval, bootstrap over seeds{wilson}{fewer}."
