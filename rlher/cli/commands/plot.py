"""`rlher plot`: draw learning curves."""

from rlher.analysis.plotting import plot

__all__ = ["plot"]
