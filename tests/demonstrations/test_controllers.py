"""The scripted controllers succeed, and controllers of the user's own are loaded and checked."""

import gymnasium as gym
import numpy as np
import pytest

from rlher.config.environment import EnvConfig
from rlher.core.errors import UserError
from rlher.demonstrations.controllers import load_controller
from rlher.demonstrations.scripted import SCRIPTED_CONTROLLERS
from rlher.envs.contract import check_goal_env
from rlher.envs.make import make_env
from rlher.evaluation.rollout import play_episodes


def success_rate(env_id: str, episodes: int = 50, **config) -> float:
    env_config = check_goal_env(EnvConfig(id=env_id, **config)).config
    env = make_env(env_config)
    controller = load_controller("scripted", env, env_id)
    outcomes = [episode.success for episode in play_episodes(env, controller, episodes, 0)]
    env.close()
    return float(np.mean(outcomes))


def test_fetch_reach() -> None:
    assert success_rate("FetchReach-v4") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "least"), [("FetchPush-v4", 0.9), ("FetchPickAndPlace-v4", 0.95), ("FetchSlide-v4", 0.9)]
)
def test_fetch_with_a_block(env_id: str, least: float) -> None:
    assert success_rate(env_id) >= least


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCRIPTED_CONTROLLERS if name.startswith("PointMaze")])
def test_point_maze(name: str) -> None:
    assert success_rate(f"{name}-v3") == 1


@pytest.fixture
def env() -> gym.Env:
    return make_env(EnvConfig(id="BitFlipping-v0", success_key="is_success"))


@pytest.fixture
def module(tmp_path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module with controllers into the working folder."""
    (tmp_path / "own_controllers.py").write_text(
        """
import numpy as np

class Counting:
    def __init__(self, env):
        self.n = env.action_space.n
    def reset(self):
        self.step = -1
    def __call__(self, observation):
        self.step += 1
        return self.step % self.n

too_large = lambda observation: 99
no_number = lambda observation: "left"
number = 7
wide = lambda observation: 3 * np.ones(15)

def raising(observation):
    return 1 / 0
"""
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_controllers"


def test_a_class_gets_the_environment_and_is_reset(env, module) -> None:
    controller = load_controller(f"{module}:Counting", env, "BitFlipping-v0")
    observation, _ = env.reset(seed=0)
    for _ in range(2):
        controller.reset()
        assert [int(controller(observation)) for _ in range(16)] == [*range(15), 0]


@pytest.mark.parametrize("name", ["too_large", "no_number", "raising"])
def test_an_action_that_does_not_exist_is_the_users_error(env, module, name) -> None:
    controller = load_controller(f"{module}:{name}", env, "BitFlipping-v0")
    observation, _ = env.reset(seed=0)
    with pytest.raises(UserError):
        controller(observation)


@pytest.mark.parametrize(
    "name", ["own_controllers:missing", "own_controllers:number", "nowhere:act", "act", "scripted"]
)
def test_a_controller_that_cannot_be_used_is_the_users_error(env, module, name) -> None:
    with pytest.raises(UserError):
        load_controller(name, env, "BitFlipping-v0")
