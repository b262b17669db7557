"""`rlher enjoy`: the video, its captions and grid, the progress bar, and invalid arguments."""

import csv
import json
import sys
from pathlib import Path

import pytest

from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.evaluation import captions, video
from tests.support.terminal import Terminal
from tests.support.video import is_blank, read_frames, text_pixels


def test_enjoy_records_a_video_without_a_display(rlher, run: Path) -> None:
    done = rlher("enjoy", str(run), "--episodes", "2", "--json")
    assert done.code == 0, done.err
    assert "episode" not in done.err, "a pipe shows no bar"
    lengths = [episode["length"] for episode in json.loads(done.out)["episodes"]]
    frames = read_frames(run / "enjoy.mp4")
    assert len(frames) == max(lengths) + 1 + 6, "both side by side, and the last frame for 1.5 s at 4 frames per second"
    assert not any(map(is_blank, frames))
    assert frames[0].shape == (160 + captions.HEIGHT, 2 * video.TILE_WIDTH + video.GAP, 3)
    strips = [frame[160 : 160 + captions.HEIGHT, :470] for frame in frames]
    assert all(text_pixels(strip).sum() > 20 for strip in strips), "a caption is missing"
    assert (text_pixels(strips[0]) != text_pixels(strips[1])).sum() > 10, "the caption counts the steps"


def test_a_grid_sets_the_number_of_episodes(rlher, run: Path) -> None:
    done = rlher("enjoy", str(run), "--grid", "2x2", "--video", "a.gif")
    assert done.out.count("episode") == 4
    shape = 2 * (160 + captions.HEIGHT) + video.GAP, 2 * video.TILE_WIDTH + video.GAP, 3
    assert read_frames(Path("a.gif"))[0].shape == shape


def test_a_display_without_a_window_mode_gets_a_video(rlher, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlher.core.machine.has_display", lambda: True)
    (run / "enjoy.mp4").unlink(missing_ok=True)
    assert rlher("enjoy", str(run), "--episodes", "1").code == 0
    assert (run / "enjoy.mp4").exists()


def test_models_by_steps_give_the_numbers_of_their_evaluations(rlher, run: Path) -> None:
    with (run / "evaluations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(path.stem for path in run.glob("models/*.zip")) == sorted(row["timesteps"] for row in rows)
    for row in rows:
        arguments = ("--model", row["timesteps"], "--seed", "10000", "--episodes", "2", "--json")
        measured = json.loads(rlher("evaluate", str(run), *arguments).out)
        assert measured["mean_reward"] == float(row["mean_reward"])


def test_a_model_file_is_no_run(rlher, run: Path) -> None:
    assert [rlher("evaluate", str(file)).code for file in (run / "best_model.zip", "none.zip")] == [2, 2]


@pytest.mark.parametrize(
    "words", ["model=70", "model=../secret", "grid=3by2", "grid=0x2", "width=3", "video=video.avi", "video=/proc/a.mp4"]
)
def test_invalid_arguments_are_reported(rlher, run: Path, words: str) -> None:
    done = rlher("enjoy", str(run), "--episodes", "1", words)
    assert done.code == 2
    assert words.split("=")[1] in done.err


def test_a_renderer_that_fails_is_reported(rlher, monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    monkeypatch.setattr(BitFlippingEnv, "render", lambda self: 1 / 0)
    done = rlher("enjoy", str(run), "--episodes", "2", "--video", "video.gif")
    assert done.code == 1
    assert "ZeroDivisionError" in done.err
    assert not Path("video.gif").exists()


@pytest.mark.parametrize("verb", ["enjoy", "evaluate"])
def test_a_terminal_shows_the_bar_and_stdout_only_the_results(
    rlher, run: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    done = rlher(verb, str(run), "--episodes", "2")
    assert done.code == 0
    assert "2/2" in terminal.getvalue()
    assert done.out.count("\n") == (2 if verb == "enjoy" else 1)
    assert "\x1b" not in done.out
