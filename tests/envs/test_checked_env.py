"""Whether the object moved, and whether the goal was reached at reset."""

import numpy as np
import pytest

from rlher.config.environment import EnvConfig
from rlher.envs.make import make_env

REACH = dict(success_key="is_success", success_reward=0.0, reward_range=[-1.0, 0.0], ends_on_success=False)


def episode(env, actions) -> list[dict]:
    env.reset(seed=3)
    return [env.step(action)[4] for action in actions]


@pytest.mark.parametrize(("name", "moved"), [("FetchPush-v4", False), ("FetchReach-v4", True)])
def test_a_hand_that_moves_is_the_object_of_reaching_alone(name: str, moved: bool):
    env = make_env(EnvConfig(id=name, **REACH), training=True)
    infos = episode(env, [np.array([0, 0, 1, 0], np.float32)] * 50)
    assert not infos[0]["object_moved"]
    assert any(info["object_moved"] for info in infos) == infos[-1]["object_moved"] == moved
    env.close()


def test_success_at_reset_stays_for_the_episode():
    env = make_env(EnvConfig(id="FetchPush-v4", **REACH), training=True)
    compute_reward, shares = env.get_wrapper_attr("compute_reward"), []
    for seed in range(60):
        start, reset_info = env.reset(seed=seed)
        info = env.step(np.zeros(4, np.float32))[4]
        expected = bool(compute_reward(start["achieved_goal"], start["desired_goal"], {}) >= 0)
        assert info["success_at_reset"] == reset_info["is_success"] == expected
        shares.append(expected)
    assert 0 < np.mean(shares) < 0.3
    env.close()


@pytest.mark.parametrize(("training", "keys"), [(False, {}), (True, {"success_reward": None})])
def test_nothing_is_added_in_evaluation_or_without_a_known_success(training: bool, keys: dict):
    env = make_env(EnvConfig(id="FetchReach-v4", **{**REACH, **keys}), training=training)
    assert "object_moved" not in episode(env, [np.zeros(4, np.float32)])[0]
    env.close()
