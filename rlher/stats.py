"""Statistics of success rates."""

from collections.abc import Sequence
from math import hypot, isfinite

import numpy as np
from scipy.stats import binomtest, ttest_ind


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Wilson score interval of a success rate, both ends in [0, 1].

    Unlike the normal approximation it does not shrink to nothing at 0 % and 100 %, where agents spend most of their
    time.
    """
    interval = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def difference(
    treated: Sequence[float], control: Sequence[float], episodes: int | None = None, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return the difference of two means over seeds, and the ends of its interval.

    The interval is Welch's over the seeds. Where the values are success rates it is at least as wide as Newcombe's over
    all episodes together, because five seeds at 100 % do not vary and yet do not prove 100 %.

    :param treated: one value a seed.
    :param control: the same of what it is compared with; any number of seeds from two on.
    :param episodes: episodes that each success rate was measured on; None: the values are no success rates.
    """
    gain = float(np.mean(treated) - np.mean(control))
    low = high = gain
    if max(np.ptp(treated), np.ptp(control)) > 1e-9:
        welch = ttest_ind(treated, control, equal_var=False).confidence_interval(confidence)
        low, high = float(welch.low), float(welch.high)
    if episodes is not None:
        below, above = _newcombe(treated, control, episodes, confidence)
        low, high = max(min(low, below), -1.0), min(max(high, above), 1.0)
    if not (isfinite(low) and isfinite(high)):
        raise ValueError("a difference needs two finite values on either side.")
    return gain, low, high


def _newcombe(
    treated: Sequence[float], control: Sequence[float], episodes: int, confidence: float
) -> tuple[float, float]:
    """Return Newcombe's interval of the difference of two proportions (method 10 of his 1998 paper)."""
    one, other = float(np.mean(treated)), float(np.mean(control))
    low, high = wilson(round(one * len(treated) * episodes), len(treated) * episodes, confidence)
    other_low, other_high = wilson(round(other * len(control) * episodes), len(control) * episodes, confidence)
    return one - other - hypot(one - low, other_high - other), one - other + hypot(high - one, other - other_low)
