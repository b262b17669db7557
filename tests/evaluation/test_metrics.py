"""Metrics: one list that the columns, the summary and the printed lines derive from."""

from rlher.evaluation import metrics
from rlher.evaluation.rollout import Episode

EPISODES = [
    Episode(0, success=True, reached=True, crashed=False, reward=-3.0, length=3),
    Episode(1, success=False, reached=True, crashed=True, reward=-5.5, length=6),
]


def test_evaluations_csv_has_its_columns() -> None:
    rates = ("success_rate", "mean_reward", "mean_length", "reached_rate", "crash_rate")
    assert ("timesteps", *rates, "episodes", "updates", "wall_seconds") == metrics.COLUMNS


def test_a_summary_has_every_metric() -> None:
    summary = metrics.summarize(EPISODES)
    assert summary.keys() == {*metrics.BY_NAME, "success_rate_low", "success_rate_high", "episodes"}
    assert [summary[name] for name in metrics.BY_NAME] == [0.5, -4.25, 4.5, 1.0, 0.5]
    assert summary["success_rate_low"] < 0.5 < summary["success_rate_high"]


def test_crashes_count_only_where_they_are_reported() -> None:
    assert metrics.summarize([Episode(0)])["crash_rate"] is None
    assert metrics.summarize([Episode(0), Episode(1, crashed=True)])["crash_rate"] == 1.0


def test_a_summary_as_text() -> None:
    cells = metrics.format_cells(metrics.summarize(EPISODES))
    assert list(cells) == ["success", "reached at any time", "crashed", "mean return", "mean length"]
    assert cells["success"].startswith("50.0% [")
    assert cells["mean return"] == "-4.25"
    assert "crashed" not in metrics.format_summary(metrics.summarize([Episode(0)]))
