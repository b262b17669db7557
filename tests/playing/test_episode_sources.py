"""The scripted controllers succeed, and controllers of the user's own are loaded and checked."""

import gymnasium as gym
import numpy as np
import pytest

from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError
from rlher.envs.contract import check_goal_env
from rlher.envs.make import make_env
from rlher.evaluation.rollout import play_episodes
from rlher.playing.controllers import SCRIPTED_CONTROLLERS
from rlher.playing.episode_sources import load_controller

LEAST = {"FetchPush": 0.9, "FetchPickAndPlace": 0.95}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTED_CONTROLLERS)
def test_a_scripted_controller_succeeds(name: str) -> None:
    env_id = f"{name}-v{4 if name.startswith('Fetch') else 3}"
    env = make_env(check_goal_env(EnvConfig(id=env_id)).config)
    controller = load_controller("scripted", env)
    outcomes = [episode.success for episode in play_episodes(env, controller, range(15))]
    env.close()
    assert np.mean(outcomes) >= LEAST.get(name, 1)


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

def raising(observation):
    return 1 / 0
"""
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_controllers"


def test_a_class_gets_the_environment_and_is_reset(env, module) -> None:
    controller = load_controller(f"{module}:Counting", env)
    observation, _ = env.reset(seed=0)
    for _ in range(2):
        controller.reset()
        assert [int(controller(observation)) for _ in range(16)] == [*range(15), 0]


@pytest.mark.parametrize("name", ["too_large", "no_number", "raising"])
def test_an_action_that_does_not_exist_is_an_error_of_the_controller(env, module, name) -> None:
    controller = load_controller(f"{module}:{name}", env)
    observation, _ = env.reset(seed=0)
    with pytest.raises(RunError):
        controller(observation)
