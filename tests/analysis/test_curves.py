"""Learning curves of groups."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlher.analysis import curves
from rlher.config.command_configs import PlotConfig
from rlher.core import stats
from rlher.core.errors import UserError
from tests.analysis.conftest import load_group
from tests.conftest import Make


def test_a_curve_ends_with_the_shortest_run(make_run: Make, tmp_path: Path) -> None:
    make_run("a", 0, 0.1, freq=100, rows=10)
    make_run("b", 1, 0.1, freq=150, rows=3)
    curve = curves.group_curve(load_group(tmp_path / "logs"), "timesteps", "success_rate")
    assert curve.summary.index.tolist() == [150, 200, 300, 400, 450]
    of_a = np.array([0.15, 0.2, 0.3, 0.4, 0.45])
    of_b = np.array([0.1, 0.1 + 0.1 / 3, 0.2, 0.2 + 0.2 / 3, 0.3])
    assert curve.summary["iqm"].to_numpy() == pytest.approx((of_a + of_b) / 2)


def test_runs_without_a_common_range_are_drawn_without_a_mean(rlher, make_run: Make) -> None:
    make_run("a", 0, freq=100, rows=2)
    make_run("b", 1, freq=500, rows=2)
    curve = curves.group_curve(load_group(Path("logs")), "timesteps", "success_rate")
    assert (len(curve.run_curves), len(curve.summary)) == (2, 0)
    over_time = curves.group_curve(load_group(Path("logs")), "wall_seconds", "success_rate").summary
    assert len(over_time) == 2, "one that has ended keeps its last value"
    for words in (["plot", "--csv", "a.csv"], ["report"]):
        assert rlher(*words).code == 0
    assert Path("a.csv").read_text() == "env,group,seeds,x,iqm,low,high\n"


@pytest.mark.parametrize("y", ["succes_rate", "crash_rate"])
def test_an_unknown_or_empty_column_is_an_error(make_run: Make, y: str) -> None:
    file = make_run("a") / "evaluations.csv"
    pd.read_csv(file).assign(crash_rate=None).to_csv(file, index=False)
    with pytest.raises(UserError):
        curves.load_curves(PlotConfig(runs=[str(file.parent)], y=y))


@pytest.mark.parametrize(("y", "widened"), [("success_rate", True), ("mean_reward", False)])
def test_equal_seeds_still_have_a_band_if_it_is_a_rate(make_run: Make, tmp_path: Path, y: str, widened: bool) -> None:
    """Three seeds with all 60 episodes successful do not prove a success rate of 100 %."""
    for seed in range(3):
        make_run(f"run{seed}", seed, 0.5, rows=3)
    curve = curves.group_curve(load_group(tmp_path / "logs"), "timesteps", y)
    assert (curve.summary.high - curve.summary.low > 0.01).all() == widened
    if widened:
        assert (curve.summary.low.iloc[-1], curve.summary.high.iloc[-1]) == pytest.approx(stats.wilson(60, 60))
        assert (curve.summary.low.iloc[0], curve.summary.high.iloc[0]) == pytest.approx(stats.wilson(30, 60))
