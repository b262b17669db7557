"""`rlher plot`: pictures, their axes and the drawn numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from rlher.analysis import plotting
from rlher.config.command_configs import PlotConfig
from tests.analysis.conftest import write_log
from tests.conftest import Make


def legend(picture: Figure) -> list[str]:
    (drawn,) = picture.legends
    return [text.get_text() for text in drawn.get_texts()]


def test_one_thick_line_per_group_and_one_thin_line_per_seed(make_run: Make, three_seeds, tmp_path: Path) -> None:
    make_run("tqc/Some-v0_1", 0, 0.05, algo={"name": "tqc"})
    for seed in range(2):
        make_run(f"tqc/Other-v0_{seed}", seed, 0.05, algo={"name": "tqc"}, env={"id": "Other-v0"})
    picture = plotting.draw_runs(PlotConfig(runs=[f"{tmp_path}/logs"]))
    assert legend(picture) == ["sac (3 seeds)", "tqc (1–2 seeds)"]
    assert picture.axes[0].lines[-1].get_color() == picture.axes[1].lines[-1].get_color(), "of one group"
    assert [len(panel.lines) for panel in picture.axes] == [3 + 1 + 1, 2 + 1]
    assert [len(panel.collections) for panel in picture.axes] == [1, 0], "a band from three seeds on"
    drawn = picture.numbers
    three = drawn[drawn.seeds == 3]
    assert three.iqm.tolist() == pytest.approx((0.09 * np.arange(1, 11)).tolist())
    assert (three.low <= three.iqm).all()
    assert (three.iqm <= three.high).all()
    assert drawn[drawn.seeds < 3].low.isna().all()


@pytest.mark.parametrize(
    ("x", "y", "last", "expected"),
    [
        ("steps", "success_rate", 1000, lambda x: 0.09 * x / 100),  # of the evaluations
        ("steps", "rollout/success_rate", 1000, lambda x: 0.25),  # of training
        ("steps", "object_moved", 1000, lambda x: 0.5),
        ("wall", "critic_loss", 20, lambda x: 2 / x),
        ("updates", "critic_loss", 2000, lambda x: 200 / x),
        ("updates", "mean_reward", 2000, lambda x: 0.009 * x / 2 - 10),
    ],
)
def test_every_axis(three_seeds: list[Path], tmp_path, x: str, y: str, last: float, expected: Callable) -> None:
    for folder in three_seeds:
        write_log(folder)
    drawn = plotting.draw_runs(PlotConfig(runs=[f"{tmp_path}/logs"], x=x, y=y)).numbers
    assert set(drawn.seeds) == {3}
    assert drawn.x.iloc[-1] == pytest.approx(last)
    assert np.allclose(drawn.iqm, expected(drawn.x))


def test_pictures_are_not_blank(rlher, three_seeds) -> None:
    from matplotlib import image

    for folder in three_seeds:
        write_log(folder)
    assert rlher("plot").code == 0
    pixels = image.imread("logs/success_rate.png")[..., :3]
    blue = np.all(np.isclose(pixels, (0, 0x72 / 255, 0xB2 / 255), atol=0.02), axis=-1)
    columns = np.flatnonzero(blue.any(axis=0))
    assert np.ptp(columns) > 0.5 * pixels.shape[1], "a line from side to side"
    assert np.all(pixels[[0, -1]] == 1), "labels are not cut"
    assert np.all(pixels[:, [0, -1]] == 1)
    assert Path("logs/success_rate.pdf").read_bytes().startswith(b"%PDF")
    done = rlher("plot", "logs/sac", "--x", "wall", "--y", "rollout/success_rate", "--csv", "a.csv")
    assert done.out.split() == ["logs/sac/success_rate.png", "logs/sac/success_rate.pdf", "a.csv"]
    assert set(pd.read_csv("a.csv").iqm) == {0.25}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("plot", "nowhere"), "nowhere"),
        (("plot", "--y", "succes_rate"), "'success_rate'"),
        (("plot", "--output", "a.jpeg"), "a.jpeg"),
        (("plot", "--output", "logs/sac/Some-v0_1/config.yaml/a.png"), "logs/sac/Some-v0_1/config.yaml/a.png"),
        (("plot", "--figsize", "3"), "figsize"),
        (("compare", "--format", "tex"), "did you mean 'latex'"),
        (("compare", "--output", "a.xls"), "a.xls"),
        (("compare", "--output", "logs/sac/Some-v0_1/config.yaml/a.tex"), "cannot write"),
        (("compare", "nowhere"), "nowhere"),
        (("report", "--output", "a.pdf"), "a.pdf"),
        (("report", "nowhere"), "nowhere"),
        (("report", "--by", "her.n_sampled_gaol"), "'her.n_sampled_goal'"),
    ],
)
def test_a_mistake_is_named(rlher, three_seeds, words: tuple[str, ...], named: str) -> None:
    done = rlher(*words)
    assert done.code == 2
    assert named in done.err
    assert [path.name for path in Path().iterdir()] == ["logs"], "nothing is written"


def test_title_and_size(make_run: Make, tmp_path: Path) -> None:
    for agent in ("HER", "off"):
        for env in ("Push-v0", "Slide-v0"):
            make_run(f"{agent}/{env}", env={"id": env})
    runs = [f"{agent}={tmp_path}/logs/{agent}" for agent in ("HER", "off")]
    figure = plotting.draw_runs(PlotConfig(runs=runs, figsize=[6.5, 2.5], title="Two"))
    assert figure.legends[0].get_title().get_text() == "Two"
    assert figure.get_size_inches().tolist() == [6.5, 2.5]


@pytest.mark.parametrize("names", [["HER", "off"], ["a long name of an agent", "another long name of an agent"]])
def test_a_figure_for_a_paper(make_run: Make, tmp_path: Path, names: list[str]) -> None:
    """One row of panels fits a page of two columns, with the text of a paper and one legend within the figure."""
    for agent in names:
        for env in ("Push-v0", "Slide-v0"):
            for seed in range(3):
                make_run(f"{agent}/{env}_{seed}", seed, env={"id": env})
    runs = [str(tmp_path / "logs" / agent) for agent in names]
    figure = plotting.draw_runs(PlotConfig(runs=runs, style="paper", title="Two tasks"))
    assert (figure.get_figwidth(), figure.get_supxlabel()) == (6.75, "")
    assert legend(figure) == names
    assert [panel.get_title() for panel in figure.axes] == ["Push-v0", "Slide-v0"]
    assert [bool(panel.get_ylabel()) for panel in figure.axes] == [True, False]
    assert [len(panel.lines) for panel in figure.axes] == [2, 2], "bands instead of seeds"
    box = figure.legends[0].get_window_extent()
    assert box.width <= figure.bbox.width
    assert all(panel.get_tightbbox().y1 < box.y0 for panel in figure.axes), "the legend is above the panels"
    assert {label.get_size() for panel in figure.axes for label in panel.get_xticklabels()} == {7}
    assert {label.get_fontfamily()[0] for label in figure.axes[0].get_xticklabels()} == {"STIXGeneral"}


def test_curves_are_smoothed_by_a_running_mean(make_run: Make, tmp_path: Path) -> None:
    make_run("one")
    runs = [str(tmp_path / "logs")]
    plain, smooth = (plotting.draw_runs(PlotConfig(runs=runs, smooth=n)).numbers.iqm.to_numpy() for n in (1, 2))
    assert smooth[0] == plain[0]
    assert smooth[1:] == pytest.approx((plain[1:] + plain[:-1]) / 2)


def test_a_named_folder_is_not_a_key(rlher, make_run: Make) -> None:
    make_run("one/a")
    make_run("two/a", 1)
    done = rlher("compare", "k=4=logs/one", "theirs=logs/two", "theirs=logs/two/", "--format", "csv")
    assert done.code == 0, done.err
    assert [line.split(",")[1] for line in done.out.splitlines()[1:3]] == ["k=4", "theirs"]
