"""`rlher plot`: pictures, their axes and the drawn numbers."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from rlher.analysis import aggregation, plotting
from rlher.analysis.grouping import load_groups
from tests.analysis.conftest import write_log
from tests.conftest import Make


def legends(picture: Any) -> list[list[str]]:
    return [[text.get_text() for text in panel.get_legend().get_texts()] for panel in picture.axes]


def caption_of(picture: Any) -> Any:
    return next(text for text in picture.findobj(Text) if text.get_text() == picture.get_supxlabel())


def curves_of(tmp_path: Path) -> list[aggregation.GroupCurve]:
    return aggregation.aggregate_all(load_groups([], str(tmp_path / "logs"), [])[0], "timesteps", "success_rate")


def test_one_thick_line_per_group_and_one_thin_line_per_seed(make_run: Make, three_seeds, tmp_path: Path) -> None:
    make_run("tqc/Some-v0_1", 0, 0.05, algo={"name": "tqc"})
    for seed in range(2):
        make_run(f"tqc/Other-v0_{seed}", seed, 0.05, algo={"name": "tqc"}, env={"id": "Other-v0"})
    curves = curves_of(tmp_path)
    picture = Figure()
    plotting.draw(picture, curves, "timesteps", "success_rate")
    assert legends(picture) == [["sac, future (3 seeds)", "tqc, future (1 seed)"], ["tqc, future (2 seeds)"]]
    assert [len(panel.lines) for panel in picture.axes] == [3 + 1 + 1, 2 + 1]
    assert [len(panel.collections) for panel in picture.axes] == [1, 0], "a band from three seeds on"
    drawn = plotting.to_frame(curves)
    three = drawn[drawn.seeds == 3]
    assert three.iqm.tolist() == pytest.approx((0.09 * np.arange(1, 11)).tolist())
    assert (three.low <= three.iqm).all()
    assert (three.iqm <= three.high).all()
    assert drawn[drawn.seeds < 3].low.isna().all()


def test_the_caption_names_a_band_only_if_there_is_one(make_run: Make, tmp_path: Path) -> None:
    captions = []
    for seed in range(3):
        make_run(f"run{seed}", seed)
        captions.append(plotting.caption(curves_of(tmp_path)))
    assert ["Band" in caption for caption in captions] == [False, False, True]
    assert ["No band" in caption for caption in captions] == [False, True, False]
    assert len(set(captions)) == 3
    make_run("other", 0, algo={"name": "tqc"})
    assert "fewer than 3 seeds" in plotting.caption(curves_of(tmp_path))


def test_long_labels_do_not_overlap_the_caption(make_run: Make, tmp_path: Path) -> None:
    for index in range(5):
        make_run(f"a{index}/0", callbacks=[f"{'a_package.' * 12}module:Class{index}"])
        make_run(f"a{index}/1", 1, callbacks=[f"{'a_package.' * 12}module:Class{index}"])
    picture = Figure()
    plotting.draw(picture, curves_of(tmp_path), "timesteps", "success_rate")
    picture.draw_without_rendering()
    (panel,) = picture.axes
    bottom = panel.get_legend().get_window_extent().y0
    assert bottom >= caption_of(picture).get_window_extent().y1
    assert panel.get_legend().get_window_extent().y1 <= panel.xaxis.label.get_window_extent().y0


@pytest.mark.parametrize("y", ["object_moved", "rollout/object_moved", "critic_loss", "steps_per_second"])
def test_columns_of_the_training_log(rlher, three_seeds: list[Path], y: str) -> None:
    for folder in three_seeds[:2]:
        write_log(folder)
    done = rlher("plot", "--y", y, "--csv", "a.csv")
    assert done.code == 0, done.err
    assert Path(f"logs/{y.rpartition('/')[2]}.png").exists()
    drawn = pd.read_csv("a.csv")
    assert set(drawn.seeds) == ({3} if y == "steps_per_second" else {2})
    expected = {"critic_loss": 100 / drawn.x, "steps_per_second": 50}.get(y, 0.5)
    assert np.allclose(drawn.iqm, expected)


@pytest.mark.parametrize("x", ["steps", "wall", "updates"])
@pytest.mark.parametrize("y", ["success_rate", "mean_reward"])
def test_every_axis(rlher, three_seeds, x: str, y: str) -> None:
    done = rlher("plot", "--x", x, "--y", y, "--output", "a.png", "--csv", "a.csv")
    assert done.code == 0, done.err
    assert done.out.split() == ["a.png", "a.csv"]
    drawn = pd.read_csv("a.csv")
    assert drawn.x.max() == {"steps": 1000, "wall": 20, "updates": 2000}[x]


def test_pictures_are_not_blank(rlher, three_seeds) -> None:
    from matplotlib import image

    assert rlher("plot").code == 0
    pixels = image.imread("logs/success_rate.png")[..., :3]
    blue = np.all(np.isclose(pixels, (0, 0x72 / 255, 0xB2 / 255), atol=0.02), axis=-1)
    columns = np.flatnonzero(blue.any(axis=0))
    assert np.ptp(columns) > 0.5 * pixels.shape[1], "a line from side to side"
    assert np.all(pixels[[0, -1]] == 1), "labels are not cut"
    assert np.all(pixels[:, [0, -1]] == 1)
    assert Path("logs/success_rate.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("content", [b"text.usetex: true\nbackend: module://hostile\n", b"\xff"])
def test_a_matplotlibrc_of_the_current_folder_is_ignored(make_run: Make, tmp_path: Path, content: bytes) -> None:
    make_run("a", env={"id": "Some$_{v}$"})
    Path(tmp_path, "matplotlibrc").write_bytes(content)
    Path(tmp_path, "hostile.py").write_text("open('executed', 'w')")
    own = tmp_path / "own" / "matplotlibrc"  # the user's own configuration
    own.parent.mkdir()
    own.write_text("font.size: 31\nbackend: agg\n")
    code = "from rlher.cli.main import main; main(['plot', '--output', 'a.svg']); import matplotlib as m; "
    code += "print(m.rcParams['text.usetex'], m.get_backend(), m.rcParams['font.size'])"
    words = [sys.executable, "-c", code]
    environment = {**os.environ, "MPLCONFIGDIR": str(own.parent), "MPLBACKEND": ""}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.stdout.splitlines(), done.stderr) == (["a.svg", "False agg 31.0"], "")
    assert not Path(tmp_path, "executed").exists()


def test_show_opens_a_window(rlher, monkeypatch: pytest.MonkeyPatch, three_seeds) -> None:
    from matplotlib import pyplot

    shown: list[int] = []
    monkeypatch.setattr(plotting, "has_display", lambda: True)
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(len(pyplot.gcf().axes[0].lines)))
    assert rlher("plot", "--show", "--output", "a.png").code == 0
    assert shown == [3 + 1]
    assert Path("a.png").stat().st_size


def test_a_run_without_the_column_is_not_a_seed(rlher, three_seeds: list[Path]) -> None:
    for folder, column in zip(three_seeds, ("", "crash_rate", "crash_rate"), strict=True):
        frame = pd.read_csv(folder / "evaluations.csv")
        frame[column or "other"] = 0.1 if folder != three_seeds[1] else float("nan")
        frame.to_csv(folder / "evaluations.csv", index=False)
    assert rlher("plot", "--y", "crash_rate", "--output", "a.png", "--csv", "a.csv").code == 0
    assert set(pd.read_csv("a.csv").seeds) == {1}
    done = rlher("plot", str(three_seeds[1]), "--y", "crash_rate", "--output", "b.png")
    assert done.code == 2
    assert "crash_rate" in done.err


def test_many_evaluations_are_drawn_within_seconds(rlher, make_run: Make) -> None:
    for seed in range(5):
        make_run(f"long{seed}", seed, 0.0001, rows=10_000 - 7 * seed)
    before = time.process_time()
    assert rlher("plot", "--csv", "a.csv").code == 0
    assert time.process_time() - before < 10
    drawn = pd.read_csv("a.csv")
    assert len(drawn) <= 500
    assert np.allclose(drawn.iqm, drawn.x / 1e6)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("plot", "nowhere"), "nowhere"),
        (("plot", "--y", "succes_rate"), "'success_rate'"),
        (("plot", "--by", "her.n_sampled_gaol"), "'her.n_sampled_goal'"),
        (("plot", "--output", "a.jpeg"), "a.jpeg"),
        (("plot", "--x", "hours"), "hours"),
        (("plot", "--show"), "--show"),
        (("plot", "--output", "logs/sac/Some-v0_1/config.yaml/a.png"), "logs/sac/Some-v0_1/config.yaml/a.png"),
        (("compare", "--format", "html"), "html"),
        (("evaluate", "a", "b"), "evaluate"),
    ],
)
def test_a_mistake_is_named(rlher, monkeypatch, three_seeds, words: tuple[str, ...], named: str) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    done = rlher(*words)
    assert done.code == 2
    assert named in done.err
    assert "Traceback" not in done.err
