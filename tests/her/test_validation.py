"""Arguments that are refused, and warnings about those without effect."""

import re
import warnings

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy as SB3Strategy

from rlher.her import HerReplayBuffer
from tests.support.her_play import Player, make_buffer

ENV = BitFlippingEnv()


def build(**kwargs):
    given = {"buffer_size": 10, "observation_space": ENV.observation_space, "action_space": ENV.action_space} | kwargs
    return HerReplayBuffer(**given)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"n_sampled_goal": -1}, "n_sampled_goal=-1"),
        ({"buffer_size": 0}, "buffer_size=0"),
        ({"n_envs": 0}, "n_envs=0"),
        ({"n_steps": 0}, "n_steps=0"),
        ({"seed": -1}, "seed=-1"),
        ({"gamma": 1.5}, "gamma=1.5"),
        ({"goal_gamma": -0.1}, "goal_gamma=-0.1"),
        ({"relabel": "right"}, "corrected"),
        ({"relabel_done": "sometimes"}, "relabel_done='sometimes'"),
        ({"success_reward": float("nan")}, "success_reward=nan"),
        ({"success_reward": float("inf")}, "success_reward=inf"),
        ({"optimize_memory_usage": True}, "optimize_memory_usage"),
        ({"goal_selection_strategy": "past"}, "future"),
        ({"goal_mix": {"futur": 1}}, "'futur'"),
        ({"priority": "best"}, "td_error"),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(bad, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        build(**bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"buffer_size": "10"},
        {"buffer_size": 10.5},
        {"n_envs": True},
        {"n_steps": 1.5},
        {"n_sampled_goal": 0.5},
        {"seed": "a"},
        {"gamma": "0.9"},
        {"success_reward": "x"},
        {"success_reward": True},
        {"goal_mix": [1, 2]},
        {"goal_mix": {"future": "1"}},
        {"goal_slot_shares": 0.5},
        {"goal_slot_shares": ["a", "b"]},
        {"goal_selection_strategy": 3},
        {"relabel": 1},
        {"relabel_done": None},
        {"priority": 3},
        {"priority_kwargs": [0.1]},
        {"priority_kwargs": {"alpha": 0.5}},
        {"copy_info_dict": "no"},
        {"ends_on_success": "yes"},
        {"compute_reward": -1},
        {"action_space": 4},
        {"env": "FetchReach-v4"},
    ],
    ids=str,
)
def test_arguments_of_a_wrong_type_are_refused_by_name(bad):
    with pytest.raises(TypeError, match=f"^{next(iter(bad))}="):
        build(**bad)


@pytest.mark.parametrize("name", ["floor", "alpha"])
def test_options_of_a_priority_of_a_wrong_type_are_refused_by_name(name):
    priority = {"floor": "energy", "alpha": "td_error"}[name]
    with pytest.raises(TypeError, match=f"^{name}="):
        build(priority=priority, priority_kwargs={name: "high"})


@pytest.mark.parametrize(
    "good",
    [
        {"buffer_size": np.int32(10), "gamma": np.float32(0.5), "success_reward": 0},
        {"goal_slot_shares": np.array([0.5, 0.5])},
        {"goal_selection_strategy": SB3Strategy.FINAL},
        {"copy_info_dict": np.True_, "device": "cpu"},
    ],
    ids=str,
)
def test_equivalent_types_are_accepted(good):
    build(**good)


def space_with(**parts):
    box = spaces.Box(0, 1, (1,), np.float32)
    return spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box} | parts)


@pytest.mark.parametrize(
    ("space", "named"),
    [
        (spaces.Dict({"observation": spaces.Discrete(3)}), "desired_goal"),
        (spaces.Box(0, 1, (1,)), "achieved_goal"),
        (space_with(achieved_goal=spaces.Box(0, 1, (0,))), "achieved_goal"),
        (space_with(desired_goal=spaces.Box(0, 1, (2, 0))), "desired_goal"),
        (space_with(_action=spaces.Discrete(3)), "_action"),
    ],
)
def test_a_space_that_cannot_be_stored_is_refused(space, named):
    with pytest.raises(ValueError, match=named):
        build(observation_space=space)


@pytest.mark.parametrize("batch_size", [0, -1, 1.5])
def test_a_batch_needs_at_least_one_transition(batch_size):
    buffer = make_buffer()
    Player(buffer).play([False])
    with pytest.raises(ValueError, match=f"batch_size={batch_size}"):
        buffer.sample(batch_size)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"relabel": "sb3", "relabel_done": "success"}, "relabel_done"),
        ({"goal_mix": {"future": 1}}, "goal_mix"),
        ({"goal_gamma": 0.9}, "goal_gamma"),
        ({"goal_gamma": 0.9, "goal_selection_strategy": "mix", "goal_mix": {"future": 1}}, "goal_gamma"),
        ({"buffer_size": 3, "n_envs": 4}, "buffer_size=3"),
        ({"online_sampling": False}, "online_sampling"),
        ({"max_episode_length": 50}, "max_episode_length"),
    ],
)
def test_arguments_without_effect_are_warned_about(arguments, named):
    with pytest.warns(UserWarning, match=named) as caught:
        build(**arguments)
    assert [warning.filename for warning in caught if warning.category is UserWarning] == [__file__]


@pytest.mark.parametrize(
    "arguments",
    [
        {"relabel": "sb3"},
        {"goal_selection_strategy": "mix", "goal_mix": {"geometric": 1}, "goal_gamma": 0.9},
        {"goal_selection_strategy": "geometric", "goal_gamma": 0.9},
        {"buffer_size": np.int64(10), "success_reward": -0.1},
    ],
)
def test_arguments_with_effect_are_not_warned_about(arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(**arguments)


def test_goals_of_different_sizes_are_refused() -> None:
    space = spaces.Dict(
        observation=spaces.Box(-1, 1, (2,)), achieved_goal=spaces.Box(-1, 1, (2,)), desired_goal=spaces.Box(-1, 1, (3,))
    )
    with pytest.raises(ValueError, match="achieved_goal has 2 entries"):
        HerReplayBuffer(10, space, spaces.Box(-1, 1, (1,)), device="cpu")
