"""Statistics of success rates."""

from scipy.stats import binomtest


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Wilson score interval of a success rate, both ends in [0, 1].

    Unlike the normal approximation it does not shrink to nothing at 0 % and 100 %, where agents spend most of their
    time.
    """
    interval = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)
