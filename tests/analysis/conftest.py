from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlher.analysis.grouping import Group
from rlher.analysis.loading import read_runs
from rlher.evaluation.video import open_video
from tests.conftest import Make

STUDY = Path(__file__).parents[2] / "logs" / "benchmark" / "optimize-bits15"
HTML_IN_NAME = "</script><script>hacked = 1</script><img src=x onerror='hacked = 2'>\"'{{ 7 * 7 }}"


@pytest.fixture
def three_seeds(make_run: Make) -> list[Path]:
    return [make_run(f"sac/Some-v0_{seed + 1}", seed, 0.08 + 0.01 * seed) for seed in range(3)]


@pytest.fixture
def two_agents(make_run: Make) -> list[str]:
    for seed in range(3):
        make_run(f"good/{seed}", seed, 0.1)
        make_run(f"bad/{seed}", seed, 0.04 + 0.01 * seed, her={"n_sampled_goal": 2})
    return ["logs/good", "logs/bad"]


def write_log(folder: Path, object_moved: float = 0.5, rows: int = 20) -> None:
    """Write the ``progress.csv`` of a run of 1,000 steps; the rows of evaluations have no ``rollout`` columns."""
    steps = 50 * np.arange(1, rows + 1)
    log = pd.DataFrame({"time/total_timesteps": steps, "rollout/object_moved": object_moved})
    log["train/critic_loss"], log["rollout/success_rate"], log["time/fps"] = 100 / steps, 0.25, 9
    evaluations = pd.DataFrame({"time/total_timesteps": steps[1::2], "eval/success_rate": 0.1})
    pd.concat([log, evaluations]).to_csv(folder / "progress.csv", index=False)


def load_group(folder: Path, label: str = "") -> Group:
    return Group("Some-v0", label, read_runs(str(folder)))


def write_clip(path: Path) -> None:
    frames = [np.full((32, 32, 3), shade, np.uint8) for shade in (0, 128, 255)]
    with open_video(path, (32, 32), 10) as add:
        for frame in frames:
            add(frame)


def notes_about(path: str, stderr: str) -> list[str]:
    """Return the messages on stderr that name a path or a file below it."""
    return [line for line in stderr.splitlines() if path in line.replace(":", "/").replace(" ", "/").split("/")]
