"""The statistics against closed forms and against rliable (see scripts/reference_rliable.py)."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy

from rlher.core import stats

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "rliable.json").read_text())
BETTER, WORSE = (list(np.transpose(REFERENCE[name])) for name in ("better", "worse"))
PAIRS = [scores for pair in zip(BETTER, WORSE, strict=True) for scores in pair]


def mean_improvement(*pairs: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return rliable's number: the mean over tasks."""
    by_task = [stats.probability_of_improvement(x, y, axis) for x, y in zip(pairs[::2], pairs[1::2], strict=True)]
    return np.mean(by_task, axis=0)


@pytest.mark.parametrize(
    ("name", "samples", "statistic"),
    [("iqm", BETTER, stats.iqm), ("gap", BETTER, stats.optimality_gap), ("improvement", PAIRS, mean_improvement)],
)
def test_points_and_intervals_are_rliables(name: str, samples: list[np.ndarray], statistic) -> None:
    """Another generator draws other resamples, so the ends agree to their Monte-Carlo error, a few thousandths."""
    assert statistic(*samples) == pytest.approx(REFERENCE["points"][name])
    low, high = REFERENCE["intervals"][name]
    assert stats.bootstrap_interval(samples, statistic) == pytest.approx((low, high), abs=0.01)
    assert high - low > 0.1, "an interval that 0.01 tells from its neighbours"


def test_the_interval_is_the_same_twice_and_draws_nothing_from_numpys_generator() -> None:
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    assert stats.bootstrap_interval(BETTER) == stats.bootstrap_interval(BETTER)
    assert np.array_equal(before, np.random.get_state()[1])


def test_curves_are_resampled_whole() -> None:
    curves = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.5, 0.5, 0.5]])
    low, high = stats.bootstrap_interval([curves])
    assert len(set(low)) == len(set(high)) == 1
    assert low.shape == (3,)


def test_iqm_of_few_runs_is_their_mean_and_of_many_ignores_outliers() -> None:
    assert stats.iqm(np.array([0.0, 0.3, 0.9])) == pytest.approx(0.4)
    assert stats.iqm(np.array([0.0, 0.5, 0.5, 100.0])) == 0.5


def test_scores_above_1_count_as_1() -> None:
    assert stats.optimality_gap(np.array([0.5, 3.0])) == 0.25


def test_ties_count_half() -> None:
    assert stats.probability_of_improvement(np.ones(3), np.ones(4)) == 0.5
    assert stats.probability_of_improvement(np.array([1.0, 1.0]), np.array([0.0, 1.0])) == 0.75


@pytest.mark.parametrize(("probability", "m", "n"), [(0, 3, 3), (0.2, 3, 5), (0.89, 3, 3)])
def test_the_score_interval_solves_its_equation(probability: float, m: int, n: int) -> None:
    """Newcombe 2006, method 5: both ends are z standard errors away, with the standard error at that end."""
    low, high = stats.improvement_interval(probability, m, n)
    assert 0 <= low <= probability <= high <= 1
    extra = (m + n) / 2 - 1
    for end in (low, high):
        if 0 < end < 1:
            variance = end * (1 - end) * (1 + extra * (1 - end) / (2 - end) + extra * end / (1 + end)) / (m * n)
            assert abs(probability - end) / np.sqrt(variance) == pytest.approx(scipy.stats.norm.ppf(0.975))
    mirrored = stats.improvement_interval(1 - probability, m, n)
    assert mirrored == pytest.approx((1 - high, 1 - low))
