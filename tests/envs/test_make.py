"""Building one environment: the user's mistakes, wrappers and success keys."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from hostile_envs import hostile

from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError, UserError
from rlher.envs.make import make_env
from rlher.envs.registration import require_registered


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (EnvConfig(), "env="),
        (EnvConfig(id="fetchreach-V4"), "did you mean 'FetchReach-v4'"),
        (EnvConfig(id="parking-v1"), "'parking-v0'"),
        (EnvConfig(id="FetchReach-v1"), "env=FetchReach-v4"),
        (EnvConfig(id="qqqqqqqqqq"), "'qqqqqqqqqq'.*`rlher list envs`"),
        (EnvConfig(id="LineEnv-v0", modules=["hostile_env"]), "env.modules='hostile_env'"),
        (hostile("LineEnv", kwargs={"length": 3}), r"LineEnv-v0 .*env.kwargs=.*'length'"),
        (EnvConfig(id="BitFlipping-v0", kwargs={"n_bits": 0}), "BitFlipping-v0 .*n_bits=0"),
        (EnvConfig(id="CartPole-v1"), "CartPole-v1 .*GoalEnvWrapper"),
        (hostile("LacksKey"), "achieved_goal"),
    ],
)
def test_a_mistake_raises_user_error_that_names_it(config, named):
    with pytest.raises(UserError, match=named):
        make_env(config)


def test_a_missing_extra_names_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "panda_gym", None)
    monkeypatch.delitem(gym.registry, "PandaReach-v3", raising=False)
    with pytest.raises(UserError, match=r"PandaReach-v3 .*pip install 'rlher\[panda\]'"):
        require_registered("PandaReach-v3")


def test_a_constructor_that_raises_without_arguments_is_a_fault():
    with pytest.raises(RunError, match=r"RaisesInInit-v0.*ValueError: no licence"):
        make_env(hostile("RaisesInInit"))


def test_success_key_selects_the_key():
    env = make_env(hostile("Crashes", success_key="crashed"))
    env.reset(seed=1)
    infos = [env.step(np.ones(1))[4] for _ in range(6)]
    assert [info["is_success"] for info in infos] == [info["crashed"] for info in infos]
    assert any(info["is_success"] for info in infos)


def test_the_success_of_a_maze_is_is_success():
    env = make_env(EnvConfig(id="PointMaze_UMaze-v3"))
    assert env.reset(seed=0)[1]["is_success"] is False
    env.unwrapped.goal = env.unwrapped.point_env.init_qpos[:2] + 5
    assert env.step(np.zeros(2))[4]["is_success"] is False
    env.unwrapped.goal = env.step(np.zeros(2))[0]["achieved_goal"]
    assert env.step(np.zeros(2))[4]["is_success"] is True
