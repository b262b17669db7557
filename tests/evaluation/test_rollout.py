"""Outcomes of episodes, the metrics of an evaluation, and the interval of a success rate."""

import gymnasium as gym
import numpy as np
import pytest
from hostile_envs import hostile

from rlher.core.stats import wilson
from rlher.envs.make import make_env
from rlher.evaluation import metrics
from rlher.evaluation.metrics import Episode
from rlher.evaluation.rollout import play_episodes


class Scripted(gym.Env):
    """An environment that returns (success, crash) from a list, one pair per step; the seed chooses the first index."""

    def __init__(self, script: list[tuple[bool, bool]]) -> None:
        self.script, self.seeds = script, []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.at = 0
        return {"observation": np.zeros(1)}, {}

    def step(self, action):
        success, crash = self.script[self.at]
        self.at += 1
        info = {"is_success": success, "is_crash": crash}
        return {"observation": np.zeros(1)}, -1.0, False, self.at == len(self.script), info


def test_success_is_that_of_the_last_step() -> None:
    env = Scripted([(False, False), (True, True), (False, False)])
    summary = metrics.summarize(list(play_episodes(env, lambda observation: np.zeros(1), range(7, 10))))
    assert env.seeds == [7, 8, 9]
    assert summary["success_rate"] == 0.0
    assert summary["reached_rate"] == 1.0
    assert summary["crash_rate"] == 1.0
    assert summary["mean_length"] == 3.0
    assert summary["mean_reward"] == -3.0


def test_an_episode_depends_on_its_seed_alone() -> None:
    """Also where policy and environment draw from global generators, whose state is kept."""
    with make_env(hostile("GlobalGenerator")) as env:
        np.random.seed(0)
        one, two = (list(play_episodes(env, lambda _: np.random.uniform(-1, 1, 1), range(7, 10))) for _ in range(2))
        assert one == two
        after = np.random.random()
    np.random.seed(0)
    assert after == np.random.random()


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(100, 100, 0.9630, 1.0), (0, 10, 0.0, 0.2775), (50, 100, 0.4038, 0.5962), (98, 100, 0.9300, 0.9945)],
)
def test_wilson_against_published_values(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-4)


EPISODES = [
    Episode(0, success=True, reached=True, crashed=False, reward=-3.0, length=3),
    Episode(1, success=False, reached=True, crashed=True, reward=-5.5, length=6),
]


def test_a_summary_has_every_metric() -> None:
    summary = metrics.summarize(EPISODES)
    assert summary.keys() == {*metrics.METRICS_BY_NAME, "success_rate_low", "success_rate_high", "episodes"}
    assert [summary[name] for name in metrics.METRICS_BY_NAME] == [0.5, -4.25, 4.5, 1.0, 0.5]
    assert summary["success_rate_low"] < 0.5 < summary["success_rate_high"]


def test_crashes_count_only_where_they_are_reported() -> None:
    assert metrics.summarize([Episode(0)])["crash_rate"] is None
    assert metrics.summarize([Episode(0), Episode(1, crashed=True)])["crash_rate"] == 1.0
