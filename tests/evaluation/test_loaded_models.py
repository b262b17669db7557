"""A run's model plays right wherever it is loaded: with rlher's class, and with Stable-Baselines3's."""

import json
from pkgutil import resolve_name

import numpy as np
import pytest

from rlher.algos import ALGORITHMS
from rlher.envs.vec import make_goal_envs
from rlher.evaluation.agent import load_agent
from rlher.run import lookup
from tests.conftest import TINY
from tests.support.tiers import slow_except


@pytest.mark.parametrize("algo", slow_except(["ddpg", "dqn"], ALGORITHMS))
def test_loaded_models_act_as_in_an_evaluation(rlher, algo: str) -> None:
    continuous = f"env.kwargs.continuous={str(ALGORITHMS[algo].actions == 'continuous').lower()}"
    words = (f"algo={algo}", "env=BitFlipping-v0", "env.kwargs.n_bits=5", continuous, "recipe=null", *TINY)
    done = rlher("train", *words, "total_timesteps=200", "--json")
    assert done.code == 0, done.err
    run = lookup.find(json.loads(done.out)["run"], "logs")
    agent, file = load_agent(run, "best", "cpu", True, None), run.folder / "best_model.zip"
    ours, theirs = ALGORITHMS[algo].load(), resolve_name(ALGORITHMS[algo].sb3)
    models = [
        ours.load(file),  # without an environment, for predictions
        ours.load(file, env=make_goal_envs(run.config.env)),
        theirs.load(file, env=make_goal_envs(run.config.env)),
    ]
    generator = np.random.default_rng(0)
    actions = set()
    for _ in range(30):
        obs = {key: generator.integers(0, 2, 5).astype(np.float32) for key in agent.env.observation_space.spaces}
        expected = agent.policy(obs)
        actions.add(json.dumps(np.asarray(expected).tolist()))
        for model in models:
            np.testing.assert_allclose(model.predict(obs, deterministic=True)[0], expected, atol=1e-5)
    assert len(actions) > 1, "a constant policy would prove nothing"
    with pytest.raises(ValueError, match="without an environment"):
        models[0].learn(10)
