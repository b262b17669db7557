"""Statistics of success rates over few seeds, as recommended by Agarwal et al. 2021 (arXiv:2108.13264)."""

import warnings
from collections.abc import Callable, Sequence
from math import hypot
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy  # loads scipy.stats, which takes a second, when it is first used
from numpy.typing import NDArray

MIN_SEEDS = 3
"""Fewest runs of a group for an interval, a probability of improvement or a performance profile."""

Interval = tuple[Any, Any]


def wilson(successes: Any, trials: Any, confidence: float = 0.95) -> Interval:
    """Return the Wilson score interval of a success rate, both ends in [0, 1].

    Unlike the normal approximation, the interval does not shrink to nothing at 0 % and 100 %.

    :param successes: a number, or an array to get an interval for each entry.
    :param trials: a number, or an array like ``successes``.
    """
    # scipy.stats.binomtest agrees to 15 digits, but importing it would take a second in every run.
    z = NormalDist().inv_cdf(0.5 + 0.5 * confidence)
    rate = successes / trials
    scale = 2 * (trials + z**2)
    center = (2 * trials * rate + z**2) / scale
    delta = z / scale * np.sqrt(4 * trials * rate * (1 - rate) + z**2)
    return np.where(rate > 0, center - delta, 0.0)[()], np.where(rate < 1, center + delta, 1.0)[()]


MIN_IQM_RUNS = 4
"""Fewest runs at which the interquartile mean leaves out a run at each end. Of fewer runs it is the plain mean."""


def iqm(*tasks: NDArray, axis: int = 0) -> NDArray:
    """Return the interquartile mean along ``axis`` over the runs of all tasks, see :data:`MIN_IQM_RUNS`.

    :param tasks: one array per task, runs along ``axis``.
    """
    return scipy.stats.trim_mean(np.concatenate(tasks, axis=axis), 0.25, axis=axis)


def optimality_gap(*tasks: NDArray, axis: int = 0) -> NDArray:
    """Return how far the scores of the runs of all tasks are below 1 on average; scores above 1 count as 1.

    :param tasks: one array per task, runs along ``axis``.
    """
    return 1 - np.minimum(np.concatenate(tasks, axis=axis), 1).mean(axis=axis)


def probability_of_improvement(x: NDArray, y: NDArray, axis: int = 0) -> NDArray:
    """Return the probability that a run of x beats a run of y. Ties count half, and runs are along ``axis``.

    The probability is the Mann-Whitney statistic divided by the number of pairs.
    """
    return scipy.stats.mannwhitneyu(x, y, axis=axis, method="asymptotic").statistic / (x.shape[axis] * y.shape[axis])


def improvement_interval(probability: float, m: int, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of a probability of improvement, both ends in [0, 1].

    Method 5 of Newcombe 2006 (Statistics in Medicine 25(4), 559-573, doi:10.1002/sim.2324). Like Wilson's interval for
    a proportion, the method uses the variance at the end of the interval. So the interval does not shrink to nothing at
    0 and 1: if all of three seeds beat three other seeds, it is [0.50, 1.00].

    :param probability: probability that a run of x beats a run of y, as :func:`probability_of_improvement` returns it.
    :param m: runs of x.
    :param n: runs of y.
    """
    z = scipy.stats.norm.ppf(0.975)
    extra = (m + n) / 2 - 1

    def lower(estimate: float) -> float:
        def excess(theta: float) -> float:
            variance = theta * (1 - theta) * (1 + extra * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (m * n)
            return (estimate - theta) ** 2 - z**2 * variance

        return float(scipy.optimize.brentq(excess, 0, min(estimate, 1 - 1e-9)))

    return lower(probability), 1 - lower(1 - probability)  # the variance is symmetric around 0.5


def bootstrap_interval(
    samples: Sequence[NDArray], statistic: Callable[..., NDArray] = iqm, widen_to: Interval | None = None
) -> Interval:
    """Return the 95 % percentile interval of a stratified bootstrap that resamples whole runs within each sample.

    :param samples: arrays of runs, along their first axis, as ``statistic`` takes them.
    :param statistic: takes the samples and ``axis``.
    :param widen_to: an interval that the result must contain, such as Wilson's over all episodes. Without
        ``widen_to``, three seeds at 100 % would give [100 %, 100 %].
    :return: lower and upper end, each of the shape of one statistic. Both are NaN if a sample has fewer than
        :data:`MIN_SEEDS` runs.
    """
    if min(map(len, samples)) < MIN_SEEDS:
        missing = np.full(samples[0].shape[1:], np.nan)[()]
        return missing, missing
    # The same runs give the same interval, because the generator always has the same seed.
    bootstrap = scipy.stats.bootstrap(samples, statistic, n_resamples=5000, method="percentile", batch=500, rng=0)
    low, high = bootstrap.confidence_interval
    return (low, high) if widen_to is None else (np.minimum(low, widen_to[0]), np.maximum(high, widen_to[1]))


def difference_interval(
    treated: Sequence[float], control: Sequence[float], n_episodes: int | None = None, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return the difference of two means over seeds, and the ends of its interval.

    The interval is Welch's interval over the seeds. For success rates it is at least as wide as Newcombe's interval
    over all episodes, because five seeds at 100 % have no variance but do not prove 100 %. For other values without
    variance the interval is infinite.

    :param treated: one value per seed, at least two.
    :param control: values of the control, one per seed, at least two.
    :param n_episodes: episodes of each success rate; None if the values are not success rates.
    """
    gain = float(np.mean(treated) - np.mean(control))
    low, high = (-np.inf, np.inf) if n_episodes is None else (gain, gain)
    if max(np.ptp(treated), np.ptp(control)) > 1e-9:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # "precision loss", if all values of one side are equal
            low, high = scipy.stats.ttest_ind(treated, control, equal_var=False).confidence_interval(confidence)
    if n_episodes is not None:
        newcombe_low, newcombe_high = _newcombe(treated, control, n_episodes, confidence)
        low, high = max(min(low, newcombe_low), -1.0), min(max(high, newcombe_high), 1.0)
    return gain, float(low), float(high)


def _newcombe(
    treated: Sequence[float], control: Sequence[float], n_episodes: int, confidence: float
) -> tuple[float, float]:
    """Return Newcombe's interval of the difference of two proportions (method 10 of his 1998 paper)."""
    rates = np.array([np.mean(treated), np.mean(control)])
    trials = n_episodes * np.array([len(treated), len(control)])
    low, high = wilson((rates * trials).round(), trials, confidence)
    below, above = rates - low, high - rates
    difference = rates[0] - rates[1]
    return difference - hypot(below[0], above[1]), difference + hypot(above[0], below[1])
