"""Scores of runs and trials, and the intervals of their differences."""

import numpy as np
import pytest

from rlher.core import stats
from rlher.tuning.scoring import Score, format_steps, mean_score, objective_value, score_run


def rows(*rates: float) -> list[dict]:
    return [
        {"timesteps": 100 * number, "wall_seconds": 10.0 * number, "success_rate": rate, "mean_reward": -1.0}
        for number, rate in enumerate(rates, 1)
    ]


def test_score_of_a_run() -> None:
    score = score_run(rows(0, 0, 0.5, 0.9, 0.8, 1, 0.9, 1, 0.8, 0.6))
    assert (score.success, score.steps, score.share_at_target) == (pytest.approx(0.7), 400, 1)
    assert score.auc == pytest.approx(0.65)


def test_run_that_never_reaches_90_percent() -> None:
    never, last = score_run(rows(0, 0.5)), score_run(rows(0, 1))
    assert (never.steps, never.share_at_target) == (200, 0), "its steps are the whole run"
    assert (last.steps, last.share_at_target) == (200, 1)
    shown = [format_steps(score.steps, score.share_at_target) for score in (never, last, mean_score([never, last]))]
    assert shown == ["–", "200", "≥200"]


@pytest.mark.parametrize(
    ("rates", "seconds"), [((0, 0.9, 0.5, 0.9, 1), 10), ((0, 0.5), -30), ((0, 1), 0), ((0, 0, 0, 0, 0, 1, 1), 0)]
)
def test_seconds_to_90_percent_count_two_evaluations_in_a_row(rates: tuple[float, ...], seconds: float) -> None:
    score = score_run(rows(*rates), time_limit=60.0)
    assert objective_value("seconds", score, 1000, n_episodes=40) == seconds


def test_steps_never_outweigh_an_episode() -> None:
    """One more success in the last evaluations counts more than any number of steps."""
    quick = Score(success=0.95, auc=0.9, steps=0, mean_reward=0, share_at_target=1, seconds=0)
    late, slow = quick._replace(steps=900), quick._replace(success=0.95 + 1 / 40, steps=1000)
    values = [objective_value("success", score, 1000, n_episodes=40) for score in (late, quick, slow)]
    assert values == sorted(values)


def test_interval_of_a_difference_has_its_nominal_coverage() -> None:
    """95 % intervals of the difference of two success rates, five seeds each, contain the true one."""
    rng, covered, draws = np.random.default_rng(0), 0, 300
    for _ in range(draws):
        chances = np.clip(rng.normal([[0.8], [0.6]], 0.1, (2, 5)), 0, 1)
        treated, control = rng.binomial(50, chances) / 50
        _, low, high = stats.difference_interval(list(treated), list(control), 50)
        covered += low <= 0.2 <= high
    assert covered / draws >= 0.93


def test_interval_of_five_perfect_seeds_is_not_empty() -> None:
    gain, low, high = stats.difference_interval([1.0] * 5, [1.0] * 5, 20)
    assert gain == 0
    assert -0.1 < low < 0 < high < 0.1
    assert stats.difference_interval([1.0] * 5, [0.0] * 5, 20)[1] > 0.9
    assert stats.difference_interval([0.2, 0.2], [0.1, 0.1])[1] < 0, "no rates: nothing is known about the variance"
