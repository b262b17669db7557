import json

import hostile_envs
import pytest

from rlher.cli.commands.check import check
from rlher.config.check import CheckConfig
from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault, UserError
from rlher.envs.contract.checker import check_goal_env, require_goal_env
from rlher.envs.contract.probe import describe


def hostile(name: str, **keys) -> EnvConfig:
    return EnvConfig(id=f"{name}-v0", modules=["hostile_envs"], **keys)


def told(name: str, level: str, **keys) -> list[str]:
    return [finding.sentence for finding in check_goal_env(hostile(name, **keys)) if finding.level == level]


def test_a_sound_environment_has_nothing_against_it():
    assert {finding.level for finding in check_goal_env(hostile("LineEnv"))} == {"ok"}
    require_goal_env(hostile("LineEnv"))


def test_two_reward_conventions_are_caught_and_shown():
    with pytest.raises(UserError, match="step and compute_reward disagree") as error:
        require_goal_env(hostile("TwoConventions"))
    assert "step paid -1 where compute_reward gives 0" in str(error.value)
    assert "0 where it gives 1" in str(error.value)
    assert str(error.value).startswith("TwoConventions-v0")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("PlainReward", "compute_reward is not vectorised: a batch of 5 goals gives shape () instead of (5,)"),
        ("FixedGoals", "compute_reward is not vectorised: a batch of goals raises TypeError"),
        ("BatchUnsafeTermination", "compute_terminated is not safe for batches"),
        ("Unseeded", "reset(seed) is not reproducible"),
        ("OutOfSpace", "'observation' left its declared Box(-10.0, 10.0, (1,), float32)"),
    ],
)
def test_what_is_doubtful_is_told_and_does_not_forbid_training(name, sentence):
    assert any(text.startswith(sentence) for text in told(name, "warning"))
    require_goal_env(hostile(name))


@pytest.mark.parametrize(
    ("name", "error", "sentence"),
    [
        ("RaisesInStep", EnvironmentFault, "step 4 of an episode raised ValueError: the motor is on fire"),
        ("RaisesInReset", EnvironmentFault, "reset raised ValueError"),
        ("NaNReward", EnvironmentFault, "returned a reward of nan"),
        ("NaNObservation", EnvironmentFault, "nan in 'achieved_goal'"),
        ("ForgetsKey", EnvironmentFault, "without 'desired_goal'"),
        ("WrongShape", EnvironmentFault, r"shape \(3,\)"),
        ("LacksKey", UserError, "no achieved_goal"),
        ("Nested", UserError, "'observation' must be arrays"),
        ("GoalsOfTwoShapes", UserError, r"achieved goals have shape \(2,\), desired goals \(1,\)"),
        ("Dense", UserError, "nothing says whether an episode was a success"),
        ("ActionCost", UserError, "set env.extra_reward=true"),
    ],
)
def test_what_forbids_training_is_raised(name, error, sentence):
    with pytest.raises(error, match=sentence):
        require_goal_env(hostile(name))


def test_an_endless_environment_is_refused_until_it_has_a_limit():
    cfg = EnvConfig(id="Endless-v0", modules=["hostile_envs"], success_reward=-0.3)
    with pytest.raises(UserError, match=r"set env\.max_episode_steps"):
        require_goal_env(cfg)
    cfg.max_episode_steps = 30
    require_goal_env(cfg)


def test_a_crash_may_cost_what_no_goal_explains():
    assert any("-5 more on a crash (info['crashed'])" in sentence for sentence in told("Crashes", "ok"))


def test_an_unnamed_crash_is_taken_for_a_penalty_and_said_so():
    sentences = told("Crashes", "warning", crash_key="nothing_says_this")
    assert "env.crash_key=nothing_says_this was never in `info`, which has 'is_success', 'crashed'." in sentences
    assert any("-5 more on steps that end an episode without success" in sentence for sentence in sentences)


def test_a_declared_cost_of_actions_is_allowed():
    assert told("ActionCost", "error", extra_reward=True) == []


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"success_key": "won"}, "env.success_key=won is not in `info`, which has 'is_success'"),
        ({"reward_range": [0.0, 1.0]}, "a reward of -1 lies outside env.reward_range"),
        ({"ends_on_success": False}, "env.ends_on_success=false, but success ends an episode"),
        ({"success_reward": 1.0}, "less than env.success_reward=1"),
    ],
)
def test_what_is_said_and_not_true_is_caught(keys, sentence):
    assert any(text.startswith(sentence) or sentence in text for text in told("LineEnv", "error", **keys))


def test_probing_overwrites_nothing_that_is_given():
    given = {"success_key": "a", "ends_on_success": False, "success_reward": 3.0, "reward_range": [0.0, 9.0]}
    cfg = describe(hostile("LineEnv", **given))
    assert {key: getattr(cfg, key) for key in given} == given
    assert cfg.max_episode_steps == 20


def test_a_crash_may_cost_more_than_play_has_seen():
    assert describe(hostile("Crashes")).reward_range == [None, 0.0]
    assert describe(hostile("LineEnv", extra_reward=True)).reward_range is None


def test_probing_says_nothing_that_play_does_not_vouch_for():
    cfg = describe(hostile("Dense"))
    assert (cfg.success_key, cfg.success_reward, cfg.ends_on_success) == (None, None, None)
    assert describe(hostile("TwoConventions")).reward_range is None


@pytest.mark.parametrize("name", [env.__name__ for env in hostile_envs.HOSTILE if env.__name__ != "Dies"])
def test_the_verb_prints_json_for_every_kind_of_trouble(name, capsys):
    code = check(CheckConfig(env=hostile(name), json=True))
    result = json.loads(capsys.readouterr().out)
    assert code == (0 if result["ok"] else 1)
    assert result["ok"] == all(finding["level"] != "error" for finding in result["findings"])


def test_the_verb_shows_what_it_found(capsys):
    assert check(CheckConfig(env=hostile("LineEnv"))) == 0
    shown = capsys.readouterr().out
    assert "env.success_reward" in shown
    assert "ready to train on" in shown
    assert check(CheckConfig(env=hostile("TwoConventions"))) == 1
    assert "training would be refused" in capsys.readouterr().out
