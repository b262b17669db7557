"""The contract check finds each violation, and probing fills in what random episodes show."""

import json

import pytest
from hostile_envs import hostile

from rlher.cli.commands import check
from rlher.config.commands import CheckConfig
from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError, UserError
from rlher.envs.contract import CHECKS, check_goal_env, require_goal_env


def messages(name: str, level: str, **keys) -> dict[str, str]:
    """Return the messages of one level, by the check they come from."""
    findings = check_goal_env(hostile(name, **keys)).findings
    return {finding.check: finding.message for finding in findings if finding.level == level}


def test_a_sound_environment_passes_every_check():
    findings = require_goal_env(hostile("LineEnv")).findings
    assert {finding.level for finding in findings} == {"ok"}
    silent = {"reward_declarations"}  # without a finding unless something is wrong
    assert {finding.check for finding in findings} == {"interface", *CHECKS} - silent


@pytest.mark.parametrize(
    ("name", "check", "named"),
    [
        ("PlainReward", "reward_batches", "shape () instead of (5,)"),
        ("FixedGoals", "reward_batches", "TypeError"),
        ("Unseeded", "seeding", "reset(seed)"),
        ("OutOfSpace", "observations", "'observation'"),
    ],
)
def test_a_warning_does_not_forbid_training(name, check, named):
    assert named in messages(name, "warning")[check]
    require_goal_env(hostile(name))


@pytest.mark.parametrize(
    ("name", "error", "check", "named"),
    [
        ("RaisesInStep", RunError, "fault", "step 4 of an episode raised ValueError: the motor is on fire"),
        ("NaNReward", RunError, "fault", "reward of nan"),
        ("NaNObservation", RunError, "fault", "nan in 'achieved_goal'"),
        ("ForgetsKey", RunError, "fault", "'desired_goal'"),
        ("WrongShape", RunError, "fault", "(3,)"),
        ("PanicsInStep", RunError, "fault", "Panic: unwrap on None"),
        ("TextObservation", RunError, "fault", "'observation'"),
        ("NaNSuccess", RunError, "fault", "info['is_success'] is nan"),
        ("TextSuccess", RunError, "fault", "info['is_success'] is 'False'"),
        ("PairReward", RunError, "fault", "compute_reward of one pair of goals"),
        ("LacksKey", UserError, "interface", "achieved_goal"),
        ("Nested", UserError, "interface", "'observation'"),
        ("GoalsOfTwoShapes", UserError, "interface", "(2,)"),
        ("Dense", UserError, "success", "env.success_key"),
        ("TwoConventions", UserError, "reward_agreement", "disagree on"),
        ("ActionCost", UserError, "reward_agreement", "env.goal_independent_reward=true"),
    ],
)
def test_an_error_forbids_training(name, error, check, named):
    assert named in messages(name, "error")[check]
    with pytest.raises(error, match=f"{name}-v0"):
        require_goal_env(hostile(name))


def test_an_environment_without_a_time_limit_is_an_error_until_one_is_set():
    config = EnvConfig(id="Endless-v0", modules=["hostile_envs"], success_reward=-0.3)
    with pytest.raises(UserError, match=r"env\.max_episode_steps"):
        require_goal_env(config)
    config.max_episode_steps = 30
    require_goal_env(config)


def test_a_crash_may_have_a_goal_independent_penalty_if_its_key_is_known():
    assert "info['crashed']" in messages("Crashes", "ok")["reward_agreement"]
    assert "reward_agreement" in messages("Crashes", "warning", crash_key="nothing_says_this")


@pytest.mark.parametrize(
    ("keys", "check"),
    [
        ({"success_key": "won"}, "success"),
        ({"reward_range": [0.0, 1.0]}, "reward_declarations"),
        ({"ends_on_success": False}, "success"),
        ({"success_reward": 1.0}, "reward_declarations"),
    ],
)
def test_a_wrong_declaration_is_an_error_that_names_the_key(keys, check):
    assert f"env.{next(iter(keys))}" in messages("LineEnv", "error", **keys)[check]


def test_probing_changes_no_property_that_is_set():
    keys = {"success_key": "a", "ends_on_success": False, "success_reward": 3.0, "reward_range": [0.0, 9.0]}
    config = check_goal_env(hostile("LineEnv", **keys)).config
    assert {key: getattr(config, key) for key in keys} == keys
    assert config.max_episode_steps == 20


def test_probing_leaves_properties_null_that_random_episodes_do_not_show():
    config = check_goal_env(hostile("Dense")).config
    assert (config.success_key, config.success_reward, config.ends_on_success) == (None, None, None)
    assert check_goal_env(hostile("TwoConventions")).config.reward_range is None


@pytest.mark.parametrize("name", ["LineEnv", "TwoConventions", "RaisesInInit"])
def test_the_check_command_prints_json(name, capsys):
    code = check(CheckConfig(env=hostile(name), json=True), "rlher check")
    result = json.loads(capsys.readouterr().out)
    assert code == (0 if result["ok"] else 1)
    assert result["ok"] == all(finding["level"] != "error" for finding in result["findings"])
    assert result["ok"] == (name == "LineEnv")
