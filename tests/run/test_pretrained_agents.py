"""Pretrained agents: published without what only training needs, found by name, played like the run's."""

import json
import zipfile
from pathlib import Path

import numpy as np
import publish_agent
import pytest

from rlher.config.command_configs import PlayConfig
from rlher.core.errors import UserError
from rlher.envs.make import make_env
from rlher.evaluation.models import choose_model
from rlher.run import lookup
from tests.conftest import TINY

BITS = ("env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null", *TINY, "total_timesteps=100")
REACH = ("env=FetchReach-v4", "recipe=null", *TINY, "total_timesteps=100")


@pytest.fixture
def publish(rlher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Train a run and publish it under a name; return the run's folder."""
    monkeypatch.setattr(lookup, "PRETRAINED_AGENTS", tmp_path / "agents")

    def make(name: str, *words: str) -> Path:
        done = rlher("train", *words, "--json")
        assert done.code == 0, done.err
        run = Path(json.loads(done.out)["run"])
        publish_agent.publish(lookup.open_run(str(run), "logs"), tmp_path / "agents" / name)
        return run

    return make


@pytest.mark.parametrize("words", [("algo=dqn", *BITS), ("algo=sac", *REACH)])
def test_a_published_agent_acts_like_its_run(publish, tmp_path: Path, words: tuple[str, ...]):
    run = publish("mine", *words)
    with zipfile.ZipFile(tmp_path / "agents/mine/best_model.zip") as archive:
        assert set(archive.namelist()) == {"data", "policy.pth"}
        assert set(json.loads(archive.read("data"))) == {"num_timesteps"}
    chosen = [choose_model(PlayConfig(run=str(folder))) for folder in (run, lookup.pretrained_agent_folder("mine"))]
    env = make_env(chosen[0].run.config.env)
    original, published = (agent.load_policy(env) for agent in chosen)
    assert getattr(chosen[1].load(env), "exploration_rate", 0.05) == 0.05, "for sampled actions of DQN"
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        assert np.array_equal(original(observation), published(observation))


def test_it_is_listed_evaluated_and_named(publish, rlher):
    run = publish("bits", "algo=dqn", *BITS)
    (row,) = json.loads(rlher("list", "agents", "--json").out)["agents"]
    assert (row["agent"], row["env"]) == ("bits", "BitFlipping-v0")
    done = rlher("evaluate", "--agent", "bits", "--episodes", "2", "--json")
    assert json.loads(done.out)["agent"] == "bits"
    with pytest.raises(UserError, match=r"'bit'.*'bits'"):
        lookup.pretrained_agent_folder("bit")
    assert rlher("evaluate", "--agent", "bit").code == 2
    done = rlher("evaluate", str(run), "--agent", "bits")
    assert done.code == 2
    assert "agent=bits" in done.err
