from collections.abc import Callable, Iterator

import pytest
from stable_baselines3.common.vec_env import VecEnv

from rlher.config.environment import EnvConfig
from rlher.envs.vec_env import make_vec_env


@pytest.fixture
def many_cores(monkeypatch) -> None:
    """Let each environment have a worker process of its own."""
    monkeypatch.setattr("rlher.envs.vec_env.available_cores", lambda: 8)


@pytest.fixture
def group() -> Iterator[Callable[..., VecEnv]]:
    """Build vectorised environments, and reset them; they are closed after the test."""
    made = []

    def make(config: EnvConfig, n_envs: int = 2, seed: int = 0, vec_env: str = "subproc") -> VecEnv:
        made.append(make_vec_env(config, n_envs, seed, vec_env))
        made[-1].reset()
        return made[-1]

    yield make
    for envs in made:
        envs.close()
