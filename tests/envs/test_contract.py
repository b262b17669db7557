"""The contract check finds each violation, and probing fills in what random episodes show."""

import itertools
import json
import time

import gymnasium as gym
import pytest
from hostile_envs import hostile

from rlher.cli.commands import check
from rlher.config.command_configs import CheckConfig
from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError, UserError
from rlher.envs.checked_env import CheckedEnv
from rlher.envs.contract import check_goal_env, check_or_raise
from rlher.envs.make import make_base_env
from rlher.envs.probe import RandomRollout


def messages(name: str, level: str, **keys) -> str:
    """Return the messages of one level."""
    findings = check_goal_env(hostile(name, **keys)).findings
    return "\n".join(finding.message for finding in findings if finding.level == level)


@pytest.mark.parametrize("name", ["LineEnv", "ReusesArrays", "TwoThirds"])
def test_a_sound_environment_passes_every_check(name: str):
    checked = check_or_raise(hostile(name))
    assert {finding.level for finding in checked.findings} == {"ok"}
    assert None not in (checked.config.success_reward, checked.config.reward_range)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("PlainReward", "shape () instead of (5,)"),
        ("FixedGoals", "TypeError"),
        ("Unseeded", "reset(seed)"),
        ("OutOfSpace", "'observation'"),
    ],
)
def test_a_warning_does_not_forbid_training(name, named):
    assert named in messages(name, "warning")
    check_or_raise(hostile(name))


@pytest.mark.parametrize(
    ("name", "error", "named"),
    [
        ("RaisesInStep", RunError, "step 4 of an episode raised ValueError: the motor is on fire"),
        ("NaNReward", RunError, "reward of nan"),
        ("NaNObservation", RunError, "nan in 'achieved_goal'"),
        ("ForgetsKey", RunError, "'desired_goal'"),
        ("WrongShape", RunError, "(3,)"),
        ("PanicsInStep", RunError, "Panic: unwrap on None"),
        ("TextObservation", RunError, "'observation'"),
        ("NaNSuccess", RunError, "info['is_success'] is nan"),
        ("TextSuccess", RunError, "info['is_success'] is 'False'"),
        ("PairReward", RunError, "compute_reward of one pair of goals"),
        ("LacksKey", UserError, "achieved_goal"),
        ("Nested", UserError, "'observation'"),
        ("GoalsOfTwoShapes", UserError, "(2,)"),
        ("Dense", UserError, "env.success_key"),
        ("TwoConventions", UserError, "disagree on"),
        ("ActionCost", UserError, "env.goal_independent_reward=true"),
    ],
)
def test_an_error_forbids_training(name, error, named):
    assert named in messages(name, "error")
    with pytest.raises(error, match=f"{name}-v0"):
        check_or_raise(hostile(name))


def test_an_environment_without_a_time_limit_is_an_error_until_one_is_set():
    config = EnvConfig(id="Endless-v0", modules=["hostile_envs"], success_reward=-0.3)
    with pytest.raises(UserError, match=r"env\.max_episode_steps"):
        check_or_raise(config)
    config.max_episode_steps = 30
    check_or_raise(config)
    config.ends_on_success = True
    with pytest.raises(UserError, match=r"env\.ends_on_success"):
        check_or_raise(config)


def test_a_crash_may_have_a_goal_independent_penalty_if_its_key_is_known():
    assert "info['crashed']" in messages("Crashes", "ok")
    assert "penalty" in messages("Crashes", "warning", crash_key="nothing_says_this")


@pytest.mark.parametrize(
    "keys",
    [{"success_key": "won"}, {"reward_range": [0.0, 1.0]}, {"ends_on_success": False}, {"success_reward": 1.0}],
)
def test_a_wrong_declaration_is_an_error_that_names_the_key(keys):
    assert f"env.{next(iter(keys))}" in messages("LineEnv", "error", **keys)


def test_probing_changes_no_property_that_is_set_and_finds_the_others():
    keys = {"success_key": "a", "ends_on_success": False, "success_reward": 3.0, "reward_range": [0.0, 9.0]}
    config = check_goal_env(hostile("Crashes", max_episode_steps=20, **keys)).config
    assert {key: getattr(config, key) for key in keys} == keys
    assert (config.crash_key, config.actions) == ("crashed", "continuous")
    assert check_goal_env(hostile("LineEnv")).config.max_episode_steps == 20


class TruncatesAtRandom(gym.Wrapper):
    """Truncates an episode for another reason than its length."""

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated or self.np_random.random() < 0.02, info


def test_episodes_of_different_lengths_show_no_time_limit():
    config = EnvConfig("BitFlipping-v0", kwargs={"n_bits": 100}, wrappers=[f"{__name__}:TruncatesAtRandom"])
    assert check_goal_env(config).config.max_episode_steps is None


def test_a_slow_machine_sees_the_same_random_episodes(monkeypatch):
    env = CheckedEnv(make_base_env(hostile("LineEnv")), "LineEnv")
    first = RandomRollout(env, 0)
    monkeypatch.setattr(time, "monotonic", itertools.count(step=0.004).__next__)
    assert RandomRollout(env, 0).rewards.tolist() == first.rewards.tolist()


def test_probing_leaves_properties_null_that_random_episodes_do_not_show():
    config = check_goal_env(hostile("Dense")).config
    assert (config.success_key, config.success_reward, config.ends_on_success) == (None, None, None)
    assert check_goal_env(hostile("TwoConventions")).config.reward_range is None


@pytest.mark.parametrize("name", ["LineEnv", "TwoConventions", "RaisesInInit"])
def test_the_check_command_prints_json(name, capsys):
    code = check(CheckConfig(env=hostile(name), json=True))
    result = json.loads(capsys.readouterr().out)
    assert code == (0 if result["ok"] else 1)
    assert result["ok"] == all(finding["level"] != "error" for finding in result["findings"])
    assert result["ok"] == (name == "LineEnv")
