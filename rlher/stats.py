"""Statistics of success rates and of a few seeds, as Agarwal et al. 2021 (arXiv:2108.13264) ask for them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, bootstrap, mannwhitneyu, trim_mean

RESAMPLES = 5000
SEED = 0
"""Of every bootstrap, so that the same runs give the same interval twice."""

Interval = tuple[Any, Any]


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Wilson score interval of a success rate, both ends in [0, 1].

    Unlike the normal approximation it does not shrink to nothing at 0 % and 100 %, where agents spend most of their
    time.
    """
    interval = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def iqm(*tasks: NDArray, axis: int = 0) -> NDArray:
    """Return the interquartile mean along ``axis`` over the runs of all tasks; of fewer than four runs, their mean.

    :param tasks: one array a task, runs along ``axis``.
    """
    return trim_mean(np.concatenate(tasks, axis=axis), 0.25, axis=axis)


def improvement(*pairs: NDArray, axis: int = 0) -> NDArray:
    """Return the probability that a run of X beats a run of Y on the same task, ties counting half.

    The Mann-Whitney statistic over the number of pairs, averaged over tasks.

    :param pairs: x of the first task, y of the first task, x of the second, ...; runs along ``axis``.
    """
    tasks = zip(pairs[::2], pairs[1::2], strict=True)
    return np.mean(
        [
            mannwhitneyu(x, y, axis=axis, method="asymptotic").statistic / (x.shape[axis] * y.shape[axis])
            for x, y in tasks
        ],
        axis=0,
    )


def profile(scores: NDArray, levels: Sequence[float]) -> NDArray:
    """Return, per level, the share of runs whose score is above it: a performance profile.

    :param scores: (runs,) of all tasks.
    """
    return (np.asarray(scores)[None, :] > np.asarray(levels)[:, None]).mean(axis=1)


def interval(
    samples: Sequence[NDArray], statistic: Callable[..., NDArray] = iqm, confidence: float = 0.95
) -> Interval | None:
    """Return the percentile interval of a stratified bootstrap: the runs of each sample are drawn on their own.

    Runs are drawn whole, so the points of a curve stay together.

    :param samples: arrays whose first axis is runs, as ``statistic`` takes them.
    :param statistic: takes the samples and ``axis``.
    :return: lower and upper end, of the shape of one statistic; None where a sample has a single run, of which
        nothing can be said.
    """
    if min(len(sample) for sample in samples) < 2:
        return None
    found = bootstrap(
        samples,
        statistic,
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        method="percentile",
        vectorized=True,
        paired=False,
        axis=0,
        batch=500,
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return found.low, found.high
