import sys

import numpy as np
import pytest

from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault, UserError
from rlher.envs import make_env
from rlher.envs.registration import ensure_registered


def hostile(name: str, **keys) -> EnvConfig:
    return EnvConfig(id=f"{name}-v0", modules=["hostile_envs"], **keys)


@pytest.mark.parametrize(
    ("cfg", "told"),
    [
        (EnvConfig(), "no environment was named"),
        (EnvConfig(id="fetchreach-V4"), "did you mean 'FetchReach-v4'"),
        (EnvConfig(id="Fetchreach"), "did you mean 'FetchReach-v4'"),
        (EnvConfig(id="parking-v1"), "'parking-v0'"),
        (EnvConfig(id="qqqqqqqqqq"), r"no environment is called 'qqqqqqqqqq'\. `rlher list envs`"),
        (EnvConfig(id="LineEnv-v0", modules=["hostile_env"]), "'hostile_env', which cannot be imported"),
        (EnvConfig(id="no_such_module:Foo-v0"), "'no_such_module', which cannot be imported"),
        (hostile("LineEnv", kwargs={"length": 3}), r"LineEnv-v0 does not take.*unexpected keyword argument 'length'"),
        (EnvConfig(id="BitFlipping-v0", kwargs={"n_bits": 0}), "BitFlipping-v0 cannot be made.*n_bits=0 is too small"),
        (
            EnvConfig(id="parking-v0", kwargs={"config": {"add_wals": False}}),
            "no option .*add_wals .did you mean 'add_walls'",
        ),
        (EnvConfig(id="CartPole-v1"), "not a goal environment: its observations are Box"),
        (hostile("LacksKey"), "no achieved_goal"),
    ],
)
def test_the_users_mistakes_are_told(cfg, told):
    with pytest.raises(UserError, match=told):
        make_env(cfg)


def test_a_missing_extra_names_its_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "panda_gym", None)
    with pytest.raises(UserError, match=r"PandaReach-v3 needs panda_gym.*pip install 'rlher\[panda\]'"):
        ensure_registered("PandaReach-v3")


def test_a_module_that_raises_on_import_is_told(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="importing 'broken_module' failed: ZeroDivisionError"):
        make_env(EnvConfig(id="LineEnv-v0", modules=["broken_module"]))


def test_a_module_may_lie_in_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "my_own_envs.py").write_text(
        "import gymnasium as gym\nfrom hostile_envs import LineEnv\ngym.register(id='Mine-v0', entry_point=LineEnv)"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert make_env(EnvConfig(id="Mine-v0", modules=["my_own_envs"])).reset(seed=0)


def test_a_constructor_that_raises_by_itself_is_the_environments_fault():
    with pytest.raises(EnvironmentFault, match="its constructor raised ValueError: no licence"):
        make_env(hostile("RaisesInInit"))


def test_the_episode_limit_is_the_configs():
    env = make_env(hostile("LineEnv", max_episode_steps=3))
    env.reset(seed=1)
    assert [env.step(np.zeros(1))[3] for _ in range(3)] == [False, False, True]


def test_a_named_success_key_is_the_one_that_counts():
    env = make_env(hostile("Crashes", success_key="crashed"))
    env.reset(seed=1)
    infos = [env.step(np.ones(1))[4] for _ in range(6)]
    assert [info["is_success"] for info in infos] == [info["crashed"] for info in infos]
    assert any(info["is_success"] for info in infos)


def test_a_maze_says_success_under_the_common_name():
    env = make_env(EnvConfig(id="PointMaze_UMaze-v3"))
    env.reset(seed=0)
    env.unwrapped.goal = env.unwrapped.point_env.init_qpos[:2] + 5
    assert env.step(np.zeros(2))[4]["is_success"] is False
    env.unwrapped.goal = env.step(np.zeros(2))[0]["achieved_goal"]
    assert env.step(np.zeros(2))[4]["is_success"] is True
