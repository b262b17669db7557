"""`rlher enjoy`: captions, grids and videos, and machines without a renderer."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest

from rlher.cli import overrides
from rlher.cli.main import main
from rlher.config.environment import BitFlippingConfig, EnvConfig
from rlher.evaluation.rollout import Episode, play_episodes
from rlher.evaluation.video import captions, tiling
from rlher.evaluation.video.recorder import VideoOptions, record_video
from rlher.evaluation.video.tiling import EpisodeFrames, Grid
from tests.conftest import TINY

BITS = ("algo=dqn", "env=BitFlipping-v0", "env.n_bits=6", "recipe=null", *TINY)
INK, CAPTION = np.array(captions.FOREGROUND), captions.HEIGHT


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on bit flipping with all optional artifacts."""
    logs = tmp_path_factory.mktemp("enjoy") / "logs"
    keep = ("eval.keep_models=true", "record=true", "eval.freq=40")
    assert main(["train", *BITS, "total_timesteps=120", *keep, f"logs={logs}"]) == 0
    return logs / "dqn/BitFlipping-v0_1"


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def film(path: Path) -> list[np.ndarray]:
    return [np.asarray(frame)[..., :3] for frame in imageio.get_reader(path)]


def ink(strip: np.ndarray) -> np.ndarray:
    """Return which pixels have the colour of text."""
    return (np.abs(strip.astype(int) - INK) < 40).all(axis=-1)


# ------------------------------------------------------------------------------------------------ captions


def caption(width: int, over: bool = False, **outcome: bool) -> np.ndarray:
    episode = Episode(0, length=17, **outcome)
    picture = np.full((30, width, 3), 77, dtype=np.uint8)
    whole = captions.add_caption(picture, 3, episode, over, ["distance 0.034", "goal 1.34 0.75 0.53"])
    assert (whole[:30] == 77).all(), "the caption covers no part of the picture"
    assert whole.shape == (30 + CAPTION, width, 3)
    return whole[30:]


@pytest.mark.parametrize("width", [60, 100, 200, 480])
def test_a_caption_is_written_and_fits(width: int) -> None:
    strip = caption(width)
    upper, lower = ink(strip[: CAPTION // 2]), ink(strip[CAPTION // 2 :])
    assert upper.sum() > 20
    assert lower.sum() > 20 or width < 100, "no room for the distance"
    assert not ink(strip[:, :3]).any(), "the margin is kept"
    assert not ink(strip[:, -3:]).any()


def test_the_goal_is_beside_the_distance_if_it_fits() -> None:
    wide, narrow = (ink(caption(width)[CAPTION // 2 :]) for width in (480, 200))
    assert wide[:, 240:].any()
    assert not narrow[:, 120:].any()


def test_the_outcome_has_a_colour_and_a_text() -> None:
    ends = {
        "success": caption(300, over=True, success=True),
        "crashed": caption(300, over=True, crashed=True),
        "reached, then left": caption(300, over=True, reached=True),
        "missed": caption(300, over=True),
    }
    for outcome, strip in ends.items():
        assert tuple(strip[0, 0]) == captions.OUTCOME_COLORS[outcome]
    assert tuple(caption(300, success=True)[0, 0]) == captions.BACKGROUND, "not before the end"
    assert len({ink(strip).tobytes() for strip in ends.values()}) == 4


def goal_of(config: EnvConfig) -> list[str]:
    from rlher.envs.make import make_env

    env = make_env(config)
    observation, _ = env.reset(seed=1)
    return captions.goal_text(config, env)(observation)


def test_the_distance_to_the_goal_suits_the_environment() -> None:
    assert goal_of(BitFlippingConfig(id="BitFlipping-v0", n_bits=6, reward_range=[-1, 0])) == ["4 of 6 bits wrong"]
    distance, target = goal_of(EnvConfig(id="parking-v0", success_reward=-0.12, reward_range=[None, 0.0]))
    assert distance.startswith("distance 0.")
    assert target == "goal at 0.12"
    distance, goal = goal_of(EnvConfig(id="FetchReach-v4", success_reward=0.0, reward_range=[-1.0, 0.0]))
    assert 0.0 < float(distance.split()[1]) < 0.3, "metres"
    assert len(goal.split()) == 4
    sparse_with_crash = EnvConfig(id="FetchReach-v4", success_reward=0.0, reward_range=[None, 0.0])
    assert goal_of(sparse_with_crash) == [distance, goal]


# ---------------------------------------------------------------------------------------------------- grids


def test_a_grid_is_parsed_or_chosen() -> None:
    assert tiling.parse_grid("auto") is None
    assert tiling.parse_grid("3x2") == tiling.parse_grid("3×2") == Grid(3, 2)
    assert tiling.best_grid(6, 480, 520) == Grid(3, 2)
    assert tiling.best_grid(1, 480, 520) == Grid(1, 1)
    assert tiling.best_grid(5, 3000, 100) == Grid(1, 5)
    assert tiling.best_grid(3, 600, 340) == Grid(3, 1), "no cell left empty for tiles larger than they are drawn"
    assert tiling.best_grid(500, 480, 520) == tiling.best_grid(tiling.MAX_TILES, 480, 520) == Grid(5, 2)


def test_tiles_are_in_order_and_keep_their_last_picture() -> None:
    reels = []
    for colour, length in ((60, 2), (120, 4), (180, 1)):
        reel = EpisodeFrames()
        for step in range(length):
            reel.append(np.full((5, 7, 3), colour + step, dtype=np.uint8))
        reels.append(reel)
    made = list(tiling.tiled(reels, Grid(2, 2)))
    assert len(made) == 4
    gap = tiling.GAP
    assert made[0].shape == (10 + gap, 14 + gap, 3)
    assert [int(frame[0, 0, 0]) for frame in made] == [60, 61, 61, 61]
    assert [int(frame[4, 7 + gap, 0]) for frame in made] == [120, 121, 122, 123]
    assert [int(frame[5 + gap, 6, 0]) for frame in made] == [180] * 4
    assert (made[-1][5 + gap :, 7 + gap :] == tiling.BACKGROUND).all(), "nothing where there is no fourth episode"


class Blinking:
    """An environment of three steps whose tall picture encodes seed and step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self) -> None:
        import gymnasium as gym

        goal = gym.spaces.Box(-9, 9, (1,), dtype=np.float32)
        self.observation_space = gym.spaces.Dict(observation=goal, achieved_goal=goal, desired_goal=goal)

    def reset(self, *, seed=None, options=None):
        self.seed, self.steps = seed, 0
        return self.seen(), {}

    def step(self, action):
        self.steps += 1
        return self.seen(), -1.0, False, self.steps == 3, {"is_success": False}

    def seen(self) -> dict:
        return dict.fromkeys(("observation", "achieved_goal", "desired_goal"), np.zeros(1, dtype=np.float32))

    def render(self) -> np.ndarray:
        return np.full((2000, 600, 3), 40 * self.seed + 10 * self.steps, dtype=np.uint8)


@pytest.mark.parametrize("kind", [".mp4", ".gif"])
def test_a_video_has_pages_and_the_given_width(tmp_path: Path, kind: str) -> None:
    path, env = tmp_path / f"film{kind}", Blinking()
    look = VideoOptions(Grid(2, 1), width=305, captions=False)
    with record_video(path, env, EnvConfig(), 3, look) as filmed:
        assert len(list(play_episodes(env, lambda seen: np.zeros(1), 3, seed=1, on_step=filmed))) == 3
    made = film(path)
    assert len(made) == 2 * (4 + 15), "two pages of four frames and a second and a half"
    assert made[0].shape == (502, 304, 3), "of 305 at most; an even height, for H.264"
    right = made[0].shape[1] - 20
    assert made[0][100, 100].mean() == pytest.approx(40, abs=4), "the first episode"
    assert made[0][100, right].mean() == pytest.approx(80, abs=4), "beside it the second"
    assert made[-1][100, 100].mean() == pytest.approx(150, abs=4), "the third on the next page, at its end"
    assert made[-1][100, right].mean() == pytest.approx(tiling.BACKGROUND, abs=4)


def test_a_video_that_fails_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    env = Blinking()
    env.render = lambda: 1 / 0
    with record_video(tmp_path / "film.mp4", env, EnvConfig(), 2) as filmed:
        assert len(list(play_episodes(env, lambda seen: np.zeros(1), 2, seed=1, on_step=filmed))) == 2
    assert capsys.readouterr().err.count("no video: rendering failed with ZeroDivisionError") == 1
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------- the verb


def test_enjoy_records_a_video_without_a_display(rlher, run: Path) -> None:
    watched = rlher("enjoy", str(run), "--episodes", "2", "--json")
    assert watched.code == 0, watched.err
    lengths = [episode["length"] for episode in json.loads(watched.out)["episodes"]]
    frames = film(run / "enjoy.mp4")
    assert len(frames) == max(lengths) + 1 + 6, "side by side, and a second and a half at 4 pictures a second"
    assert all(frame.std() > 10 for frame in frames), "a blank frame"
    assert frames[0].shape == (2 * (64 + CAPTION) + tiling.GAP, 200, 3) or frames[0].shape[1] > 300
    strips = [frame[64 : 64 + CAPTION, :190] for frame in frames]
    assert all(ink(strip).sum() > 20 for strip in strips), "a caption is missing"
    assert (ink(strips[0]) != ink(strips[1])).sum() > 10, "it counts the steps"


def test_captions_can_be_left_out(rlher, run: Path) -> None:
    assert rlher("enjoy", str(run), "--grid", "1x1", "--episodes", "1", "--no-captions", "--video", "a.gif").code == 0
    assert film(Path("a.gif"))[0].shape == (64, 6 * 32, 3)


def test_a_grid_sets_the_number_of_episodes(rlher, run: Path) -> None:
    done = rlher("enjoy", str(run), "--grid", "2x2", "--video", "a.gif")
    assert done.out.count("episode") == 4
    assert film(Path("a.gif"))[0].shape == (2 * (64 + CAPTION) + tiling.GAP, 2 * 200 + tiling.GAP, 3)


def test_a_display_without_a_window_mode_gets_a_video(rlher, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlher.envs.rendering.has_display", lambda: True)
    (run / "enjoy.mp4").unlink(missing_ok=True)
    assert rlher("enjoy", str(run), "--episodes", "1").code == 0
    assert (run / "enjoy.mp4").exists()


def test_stochastic_is_a_flag(rlher) -> None:
    assert overrides.to_hydra("enjoy", ["--stochastic"]) == ["deterministic=false"]
    assert rlher("train", "--stochastic").code == 2


def test_models_by_steps_are_those_of_their_evaluation(rlher, run: Path) -> None:
    with (run / "evaluations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(path.stem for path in run.glob("models/*.zip")) == sorted(row["timesteps"] for row in rows)
    for row in rows:
        again = ("--checkpoint", row["timesteps"], "--seed", "10000", "--episodes", "2", "--json")
        measured = json.loads(rlher("evaluate", str(run), *again).out)
        assert measured["mean_reward"] == float(row["mean_reward"])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--checkpoint", "70"), {"70", "40", "80"}),
        (("--checkpoint", "5000"), {"5,000", "80", "120"}),
        (("--checkpoint", "bets"), {"checkpoint=bets", "'best'"}),
        (("--checkpoint", "../secret"), {"checkpoint=../secret"}),
        (("--grid", "3by2"), {"grid=3by2", "3x2"}),
        (("--grid", "0x2"), {"grid=0x2", "3x2"}),
        (("--width", "3"), {"width=3", "64"}),
        (("--video", "film.avi"), {"video=film.avi", ".mp4"}),
        (("--video", "/proc/film.mp4"), {"/proc/film.mp4"}),
    ],
)
def test_invalid_arguments_are_reported(rlher, run: Path, arguments: tuple[str, ...], named: set[str]) -> None:
    done = rlher("enjoy", str(run), "--episodes", "1", *arguments)
    assert done.code == 2
    assert named <= set(re.findall(r"[\w./=',-]*[\w']", done.err.replace(str(run), "")))
    assert "Traceback" not in done.err


def test_a_run_without_kept_models_names_the_key_that_keeps_them(rlher, run: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(run, bare, ignore=shutil.ignore_patterns("models"))
    done = rlher("enjoy", str(bare), "--checkpoint", "40")
    assert done.code == 2
    assert "eval.keep_models=true" in done.err


# ---------------------------------------------------------------------------------------------- what draws


def test_a_display_must_accept_connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Terminal multiplexers keep the DISPLAY of an ended login, with which MuJoCo's window would abort the process."""
    import socket

    from rlher.envs.rendering import has_display

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("WAYLAND_DISPLAY", "way")
    monkeypatch.setenv("DISPLAY", ":7777")
    assert not has_display()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "way"))
        server.listen()
        assert has_display()
    assert not has_display()
    monkeypatch.delenv("WAYLAND_DISPLAY")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        monkeypatch.setenv("DISPLAY", f"127.0.0.1:{server.getsockname()[1] - 6000}.0")
        assert has_display()


def test_parking_is_recorded_despite_a_dummy_video_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """highway-env draws nothing with SDL_VIDEODRIVER=dummy, which is common on servers."""
    from rlher.envs.make import make_env
    from rlher.envs.rendering import configure_offscreen

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    configure_offscreen()
    config = EnvConfig(id="parking-v0", max_episode_steps=2, success_key="is_success")
    env = make_env(config, render_mode="rgb_array")
    with record_video(tmp_path / "film.mp4", env, config, 1, VideoOptions(captions=False)) as filmed:
        list(play_episodes(env, lambda seen: np.zeros(2), 1, seed=0, on_step=filmed))
    env.close()
    assert all(frame.std() > 10 for frame in film(tmp_path / "film.mp4")), "a blank frame"


UNDRAWN = """
import gymnasium as gym
import numpy as np

class Undrawn(gym.Env):
    action_space = gym.spaces.Box(-1, 1, (1,), dtype=np.float32)
    observation_space = gym.spaces.Dict(
        {key: gym.spaces.Box(-9, 9, (1,), dtype=np.float32) for key in ("observation", "achieved_goal", "desired_goal")}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = np.zeros(1, np.float32), self.np_random.uniform(-3, 3, 1).astype(np.float32)
        return self.seen(), {}

    def step(self, action):
        self.at = np.clip(self.at + action, -9, 9).astype(np.float32)
        reward = float(self.compute_reward(self.at, self.goal, {}))
        return self.seen(), reward, False, False, {"is_success": reward == 0}

    def seen(self):
        return {"observation": self.at, "achieved_goal": self.at, "desired_goal": self.goal}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.abs(achieved_goal - desired_goal).sum(axis=-1) > 0.5).astype(np.float32)

gym.register("Undrawn-v0", Undrawn, max_episode_steps=10)
"""


def test_an_environment_that_cannot_be_rendered_is_reported(rlher, tmp_path: Path) -> None:
    (tmp_path / "undrawn.py").write_text(UNDRAWN)
    tiny = (*TINY, "total_timesteps=60", "eval.freq=20")
    done = rlher("train", "algo=sac", "env=Undrawn-v0", "env.modules=[undrawn]", *tiny, "record=true")
    assert done.code == 0, done.err
    assert done.err.count("no render_mode 'rgb_array'") == 1, "and the run goes on"
    seen, filmed = rlher("enjoy", "--episodes", "1"), rlher("enjoy", "--episodes", "1", "--video", "a.gif")
    assert "no render_mode 'rgb_array'" in seen.err
    assert "Warning" not in seen.err
    assert seen.out.startswith("episode 1:")
    assert (seen.code, filmed.code) == (0, 1)


def test_enjoy_continues_without_a_renderer(rlher, monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    from rlher.envs.bit_flipping import BitFlippingEnv

    monkeypatch.setattr(BitFlippingEnv, "render", lambda self: 1 / 0)
    watched = rlher("enjoy", str(run), "--episodes", "2")
    assert watched.code == 0
    assert watched.out.count("episode") == 2
    assert "no video" in watched.err
    assert rlher("enjoy", str(run), "--video", "film.gif").code == 1


@pytest.fixture(scope="module")
def reach(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logs = tmp_path_factory.mktemp("reach") / "logs"
    tiny = (*TINY, "total_timesteps=60", "eval.freq=1000", "env.max_episode_steps=5")
    assert main(["train", "algo=ddpg", "env=FetchReach-v4", "recipe=null", *tiny, f"logs={logs}"]) == 0
    return logs / "ddpg/FetchReach-v4_1"


def alone(verb: str, run: Path, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    """Play a run's agent in a new process, in which MuJoCo was not imported yet."""
    mine = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    command = [sys.executable, "-m", "rlher.cli.main", verb, str(run), "--episodes", "1", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**mine, **environment}, cwd=folder)


@pytest.fixture
def no_opengl(tmp_path: Path) -> str:
    """Return a PYTHONPATH on which OpenGL cannot be loaded."""
    (tmp_path / "OpenGL").mkdir()
    (tmp_path / "OpenGL/__init__.py").write_text("raise ImportError('libEGL.so.1: cannot open shared object file')\n")
    return os.pathsep.join([str(tmp_path), *sys.path])


@pytest.mark.parametrize("asked", ["", "egl"])
def test_a_machine_without_opengl_names_the_packages_to_install(
    reach: Path, tmp_path: Path, no_opengl: str, asked: str
) -> None:
    done = alone("enjoy", reach, tmp_path, "--video", "film.mp4", PYTHONPATH=no_opengl, MUJOCO_GL=asked)
    assert done.returncode == 1
    assert done.stdout.startswith("episode 1:")
    assert "cannot open shared object file" in done.stderr
    assert "apt-get install libegl1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "film.mp4").exists()


def test_a_mujoco_gl_that_does_not_work_is_reported_without_rendering(
    reach: Path, tmp_path: Path, no_opengl: str
) -> None:
    done = alone("evaluate", reach, tmp_path, PYTHONPATH=no_opengl, MUJOCO_GL="egl")
    assert done.returncode == 2
    assert "MUJOCO_GL=egl does not work here" in done.stderr
    assert "Traceback" not in done.stderr


def test_mujoco_uses_a_renderer_that_works(reach: Path, tmp_path: Path) -> None:
    """MUJOCO_GL may name a backend that is not installed."""
    done = alone("enjoy", reach, tmp_path, "--video", "film.mp4", "--no-captions", MUJOCO_GL="nonsense")
    if "apt-get install" in done.stderr:
        pytest.skip("no OpenGL on this machine")
    assert done.returncode == 0, done.stderr
    assert "because MUJOCO_GL=nonsense fails" in done.stderr
    frames = film(tmp_path / "film.mp4")
    assert frames[0].shape == (480, 480, 3)
    assert all(frame.std() > 10 for frame in frames), "a blank frame"


# ---------------------------------------------------------------------------------------------- in training


def test_a_clip_of_each_new_best_model_and_nothing_else_changes(rlher, run: Path, tmp_path: Path) -> None:
    assert rlher("train", *BITS, "total_timesteps=120", "eval.freq=40").code == 0
    plain, kept = (
        [
            {key: value for key, value in row.items() if key != "wall_seconds"}
            for row in csv.DictReader((folder / "evaluations.csv").open())
        ]
        for folder in (tmp_path / "logs/dqn/BitFlipping-v0_1", run)
    )
    assert plain == kept
    best, clips = (-1.0, 0.0), []
    for row in plain:
        rank = float(row["success_rate"]), float(row["mean_reward"])
        if rank > best:
            best, clips = rank, [*clips, f"{row['timesteps']}.mp4"]
    assert sorted(path.name for path in (run / "clips").iterdir()) == sorted(clips)
    assert all(frame.std() > 10 for frame in film(run / "clips" / clips[0]))


def test_recording_does_not_change_the_random_numbers() -> None:
    """Environments and policies may draw from the global generators."""
    import random

    import torch as th

    from rlher.core.rng import preserve_rng_state

    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(th.rand(1))

    for seed in (random.seed, np.random.seed, th.manual_seed):
        seed(3)
    wanted = draw()
    for seed in (random.seed, np.random.seed, th.manual_seed):
        seed(3)
    with suppress(ZeroDivisionError), preserve_rng_state():
        draw()
        raise ZeroDivisionError
    assert draw() == wanted


def test_a_renderer_that_fails_ends_the_clips_and_not_the_run(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlher.envs.bit_flipping import BitFlippingEnv

    monkeypatch.setattr(BitFlippingEnv, "render", lambda self: 1 / 0)
    done = rlher("train", *BITS, "total_timesteps=120", "eval.freq=20", "record=true")
    assert done.code == 0, done.err
    assert done.err.count("no video: rendering failed with ZeroDivisionError") == 1
    assert not list(Path("logs/dqn/BitFlipping-v0_1").glob("clips/*"))
