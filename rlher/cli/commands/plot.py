"""Draw the learning curves of runs."""

from rlher.config.commands import PlotConfig


def run(config: PlotConfig, command_line: str) -> int:
    """Draw the curves and return the exit code."""
    from rlher.analysis.plotting import plot

    return plot(config)
