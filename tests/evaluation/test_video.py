"""Videos: grids of episodes, frames and pages, and the clips of a training run."""

import csv
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from same_run import differences

from rlher.config.environment import EnvConfig
from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.evaluation import captions, video
from rlher.evaluation.rollout import play_episodes
from rlher.evaluation.video import record_video
from tests.conftest import BITS
from tests.support.video import is_blank, read_frames


@pytest.mark.parametrize(("episodes", "grid"), [(1, (1, 1)), (2, (2, 1)), (4, (3, 2)), (500, (3, 2))])
def test_the_grid_fits_the_number_of_episodes(tmp_path: Path, episodes: int, grid: tuple[int, int]) -> None:
    path, env = tmp_path / "video.mp4", ThreeSteps((20, 60))
    with record_video(path, env, EnvConfig(), episodes) as recorder:
        list(play_episodes(env, lambda observation: np.zeros(1), range(1, 1 + min(episodes, 5)), on_step=recorder))
    height, width, _ = read_frames(path)[0].shape
    assert width == grid[0] * video.TILE_WIDTH + (grid[0] - 1) * video.GAP
    assert height == grid[1] * (160 + captions.HEIGHT) + (grid[1] - 1) * video.GAP


class ThreeSteps:
    """An environment of three steps per episode; the brightness of its tall image encodes seed and step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, size: tuple[int, int] = (2000, 600)) -> None:
        self.size = size
        goal = gym.spaces.Box(-9, 9, (1,), dtype=np.float32)
        self.observation_space = gym.spaces.Dict(observation=goal, achieved_goal=goal, desired_goal=goal)

    def reset(self, *, seed=None, options=None):
        self.seed, self.steps = seed, 0
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        return self._observation(), -1.0, False, self.steps == 3, {"is_success": False}

    def _observation(self) -> dict:
        return dict.fromkeys(("observation", "achieved_goal", "desired_goal"), np.zeros(1, dtype=np.float32))

    def render(self) -> np.ndarray:
        return np.full((*self.size, 3), 40 * self.seed + 10 * self.steps, dtype=np.uint8)


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_a_video_has_pages_and_the_given_width(tmp_path: Path, suffix: str) -> None:
    path, env = tmp_path / f"video{suffix}", ThreeSteps()
    config = EnvConfig(action_repeat=2)
    with record_video(path, env, config, 3, (2, 1), width=305) as recorder:
        assert len(list(play_episodes(env, lambda observation: np.zeros(1), range(1, 4), on_step=recorder))) == 3
    frames = read_frames(path)
    assert len(frames) == 2 * (4 + 8), "two pages of four frames, the last one shown for 1.5 s, 5 frames a second"
    assert frames[0].shape == (500 + captions.HEIGHT, 304, 3), "at most 305 wide; even sides, for H.264"
    right = frames[0].shape[1] - 20
    assert frames[0][100, 100].mean() == pytest.approx(40, abs=4), "the first episode"
    assert frames[0][100, right].mean() == pytest.approx(80, abs=4), "the second beside it"
    assert frames[-1][100, 100].mean() == pytest.approx(150, abs=4), "the last frame of the third, on the next page"
    assert frames[-1][100, right].mean() == pytest.approx(video.BACKGROUND, abs=4)


def test_clips_of_new_best_models_do_not_change_the_training(rlher, run: Path, tmp_path: Path) -> None:
    assert rlher("train", *BITS, "total_timesteps=120", "eval.freq=40").code == 0
    assert differences(tmp_path / "logs/dqn/BitFlipping-v0_1", run) == []
    best, clips = (-1.0, 0.0), []
    for row in csv.DictReader((run / "evaluations.csv").open()):
        rank = float(row["success_rate"]), float(row["mean_reward"])
        if rank >= best:
            best, clips = rank, [*clips, f"{row['timesteps']}.mp4"]
    assert sorted(path.name for path in (run / "clips").iterdir()) == sorted(clips)
    assert not any(map(is_blank, read_frames(run / "clips" / clips[0])))


def test_a_renderer_that_fails_ends_the_clips_and_not_the_run(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BitFlippingEnv, "render", lambda self: 1 / 0)
    done = rlher("train", *BITS, "total_timesteps=120", "eval.freq=20", "record=true")
    assert done.code == 0, done.err
    assert done.err.count("ZeroDivisionError") == 1
    assert not list(Path("logs/dqn/BitFlipping-v0_1").glob("clips/*"))


FILE_SIZE_LIMITED = """
import resource, sys
import numpy as np
from pathlib import Path
from rlher.core.errors import UserError
from rlher.evaluation.video import open_video

resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
try:
    with open_video(Path(sys.argv[1]), (64, 48), 30.0) as append:
        for _ in range(30):
            append(np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8))
except UserError:
    sys.exit(2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_a_video_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, suffix: str) -> None:
    """ffmpeg may fail only when it writes the end of the file, as on a full disk."""
    film = tmp_path / f"film{suffix}"
    film.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", FILE_SIZE_LIMITED, film], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert film.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == [film.name]
