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
    band = f" Band: 95 % bootstrap interval ({MIN_SEEDS} or more seeds)." if max(seeds) >= MIN_SEEDS else ""
    return f"Thick line: {iqm}{single}. Thin lines: seeds.{band}"
