"""Classes named in ``env.wrappers`` and ``callbacks``: forms, mistakes, and what they do in a run."""

import json
from pathlib import Path

import gymnasium as gym
import pytest

from rlher.config.environment import EnvConfig
from rlher.core.errors import UserError
from rlher.core.user_code import parse_class
from rlher.envs.make import make_env
from tests.conftest import TINY

BITS = ("algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null", *TINY, "total_timesteps=80")
MODULE = """
import gymnasium as gym
from stable_baselines3.common.callbacks import BaseCallback

class Doubled(gym.ObservationWrapper):
    def __init__(self, env, factor=2.0):
        super().__init__(env)
        self.factor = factor

    def observation(self, observation):
        return {**observation, "observation": self.factor * observation["observation"]}

class Stop(BaseCallback):
    def __init__(self, after):
        super().__init__()
        self.after = after

    def _on_step(self):
        return self.num_timesteps < self.after

class Fails(BaseCallback):
    def _on_step(self):
        return {}["missing"] if self.num_timesteps == 50 else True

def raises(*_):
    raise AssertionError("called")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module with a wrapper and a callback in the current folder."""
    name = f"classes_of_{abs(hash(request.node.name))}"  # a module is imported once
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


def test_both_forms_and_the_one_of_rl_zoo() -> None:
    entries = ["a.b:C", {"a.b:C": {"x": 1}}, "a.b.C", {"a:C": None}]
    parsed = [parse_class("key", entry) for entry in entries]
    assert parsed == [("a.b:C", {}), ("a.b:C", {"x": 1}), ("a.b:C", {}), ("a:C", {})]


@pytest.mark.parametrize("entry", ["C", "a:", "a b:C", 3, {"a:C": 1}, {"a:C": {}, "b:C": {}}])
def test_another_form_is_refused(entry: object) -> None:
    with pytest.raises(UserError, match="key="):
        parse_class("key", entry)


def test_wrappers_are_applied_from_the_inside(module: str) -> None:
    inner, outer = {f"{module}:Doubled": {"factor": 3.0}}, "gymnasium.wrappers:RecordEpisodeStatistics"
    env = make_env(EnvConfig(id="BitFlipping-v0", kwargs={"n_bits": 4}, wrappers=[inner, outer]))
    values = {float(value) for seed in range(5) for value in env.reset(seed=seed)[0]["observation"]}
    assert values == {0.0, 3.0}
    wrapped, names = env, []
    while isinstance(wrapped, gym.Wrapper):
        names.append(type(wrapped).__name__)
        wrapped = wrapped.env
    assert names.index("RecordEpisodeStatistics") < names.index("Doubled")


def test_wrappers_and_callbacks_are_typed_as_documented(rlher, module: str) -> None:
    wrappers = f"env.wrappers=[{{{module}:Doubled: {{factor: 3}}}}, gymnasium.wrappers:RecordEpisodeStatistics]"
    done = rlher("train", *BITS, wrappers, f"callbacks=[{{{module}:Stop: {{after: 60}}}}]", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["status"] == "finished"
    assert result["timesteps"] == 60
    assert rlher("evaluate", "--episodes", "2").code == 0


def test_a_callback_that_raises_ends_the_run_with_its_traceback(rlher, module: str) -> None:
    with pytest.raises(KeyError) as raised:
        rlher("train", *BITS, f"callbacks=[{module}:Fails]")
    assert Path(raised.traceback[-1].path).name == f"{module}.py"
    run = Path("logs/dqn/BitFlipping-v0_1")
    assert json.loads(Path(run, "result.json").read_text())["status"] == "failed"
    assert Path(run, "last_model.zip").exists()


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("env.wrappers", "no_such_module:C"),
        ("env.wrappers", "gymnasium.wrappers:NoSuchClass"),
        ("env.wrappers", "os:system"),
        ("env.wrappers", "MODULE:raises"),
        ("env.wrappers", "MODULE:Stop"),
        ("env.wrappers", "{MODULE:Doubled: {fctor: 3}}"),
        ("callbacks", "no_such_module:C"),
        ("callbacks", "MODULE:Doubled"),
        ("callbacks", "MODULE:Stop"),
        ("callbacks", "MODULE"),
    ],
)
def test_a_wrong_class_is_refused_before_the_run(rlher, module: str, key: str, entry: str) -> None:
    done = rlher("train", *BITS, f"{key}=[{entry.replace('MODULE', module)}]")
    assert done.code == 2
    assert key in done.err
    assert not Path("logs").exists()
