"""highway-env with the faster functions gives the results of highway-env without them."""

import importlib.util

import gymnasium as gym
import numpy as np
import pytest
from highway_env.envs.common.observation import KinematicsGoalObservation
from highway_env.road.road import RoadNetwork
from highway_env.vehicle.objects import RoadObject

from rlher.envs import highway_env_patch
from rlher.envs.registration import require_registered

highway_env_patch.patch_highway_env()
OTHER_FEATURES = ["x", "vy", "cos_d", "sin_d", "presence"]
OTHER = {"type": "KinematicsGoal", "features": OTHER_FEATURES, "scales": [2] * 5}


def unpatch(monkeypatch: pytest.MonkeyPatch, observe: bool) -> None:
    """Restore highway-env's own functions until ``undo`` is called.

    :param observe: the function of observations as well, which takes most of the time.
    """
    monkeypatch.setattr(RoadNetwork, "get_closest_lane_index", highway_env_patch.highway_closest_lane_index)
    monkeypatch.setattr(RoadObject, "handle_collisions", highway_env_patch.highway_handle_collisions)
    if observe:
        spec = importlib.util.find_spec("highway_env.envs.common.observation")
        unpatched = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(unpatched)
        monkeypatch.setattr(KinematicsGoalObservation, "observe", unpatched.KinematicsGoalObservation.observe)


def test_a_package_that_was_imported_before_is_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    unpatch(monkeypatch, observe=False)
    require_registered("parking-v0")
    assert RoadNetwork.get_closest_lane_index is highway_env_patch.closest_lane_index


def play(env_id: str, config: dict, steps: int) -> list[tuple]:
    """Return what an environment shows in random episodes, half of which drive on until they hit a wall."""
    env = gym.make(env_id, config=config, disable_env_checker=True)
    rng, played, drift = np.random.default_rng(steps), [], np.zeros(2)
    env.reset(seed=steps)  # so that the longer case has other episodes
    for _ in range(steps):
        action = rng.uniform(-1, 1, 2) if env_id.startswith("parking") else int(rng.integers(5))
        if env_id.startswith("parking"):
            action = np.clip(action * 0.5 + drift, -1, 1)
        observation, reward, terminated, truncated, info = env.step(action)
        lot = env.unwrapped
        things = [*lot.road.vehicles, *lot.road.objects]
        flags = [(thing.crashed, thing.hit, getattr(thing, "lane_index", None)) for thing in things]
        values = observation.values() if isinstance(observation, dict) else [observation]
        state = np.concatenate(
            [np.ravel(value) for value in values] + [[*thing.position, thing.speed] for thing in things]
        )
        played.append((state, reward, terminated, truncated, info["crashed"], info.get("is_success"), flags))
        if terminated or truncated or rng.random() < 0.01:
            drift = rng.uniform(-0.8, 0.8, 2) * rng.integers(2)
            env.reset()
    return played


@pytest.mark.parametrize(
    ("env_id", "config", "steps", "observe"),
    [
        ("parking-v0", {}, 300, False),
        pytest.param("parking-v0", {"add_walls": False, "duration": 20}, 50, True, marks=pytest.mark.slow),
        ("parking-v0", {"vehicles_count": 6, "action": {"type": "ContinuousAction", "dynamical": True}}, 50, True),
        pytest.param("parking-v0", {"observation": OTHER}, 50, True, marks=pytest.mark.slow),
        pytest.param("merge-v0", {}, 25, False, marks=pytest.mark.slow),  # curved lanes
        pytest.param("highway-v0", {"vehicles_count": 10}, 20, False, marks=pytest.mark.slow),
        pytest.param("parking-v0", {"vehicles_count": 6}, 120, True, marks=pytest.mark.slow),
    ],
)
def test_episodes_are_equal(monkeypatch, env_id: str, config: dict, steps: int, observe: bool) -> None:
    unpatch(monkeypatch, observe)
    expected = play(env_id, config, steps)
    monkeypatch.undo()
    assert KinematicsGoalObservation.observe is highway_env_patch.observe
    actual = play(env_id, config, steps)
    for (state, reward, *flags), (expected_state, expected_reward, *expected_flags) in zip(
        actual, expected, strict=True
    ):
        np.testing.assert_allclose(state, expected_state, rtol=1e-12, atol=1e-12)
        assert reward == pytest.approx(expected_reward, rel=1e-12)
        assert flags == expected_flags
    if steps >= 300 and not config:
        assert any(crashed for *_, crashed, _, _ in actual)


def test_an_observation_has_arrays_of_its_own() -> None:
    observation = gym.make("parking-v0").reset(seed=0)[0]
    assert list(observation) == ["observation", "achieved_goal", "desired_goal"]
    assert all(value.dtype == np.float64 for value in observation.values())
    assert not np.shares_memory(observation["observation"], observation["achieved_goal"])
