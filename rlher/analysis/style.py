"""How learning curves look, in pictures and in the report alike."""

# Okabe and Ito's colours, told apart by all kinds of colour vision, ordered so that neighbours differ in lightness too;
# dashes tell lines apart on paper.
COLORS = ("#0072B2", "#E69F00", "#000000", "#CC79A7", "#009E73", "#D55E00", "#56B4E9")
DASHES: tuple[tuple[float, ...], ...] = ((), (3.7, 1.6), (6.4, 1.6, 1, 1.6), (1, 1.65), (5, 1, 1, 1, 1, 1))
"""On and off in turn, in line widths; none: an unbroken line."""


def color(index: int) -> str:
    """Return the colour of a panel's line, ``#RRGGBB``."""
    return COLORS[index % len(COLORS)]


def dashes(index: int) -> tuple[float, ...]:
    """Return the dashes of a panel's line, as in :data:`DASHES`."""
    return DASHES[index % len(DASHES)]


def seeds(count: int) -> str:
    """Say how many seeds a line stands for."""
    return f"{count} seed{'s' if count != 1 else ''}"
