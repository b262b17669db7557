"""Arguments that are refused."""

import re

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.envs import BitFlippingEnv

from rlher import HerReplayBuffer
from rlher.her.priorities import PRIORITIES

ENV = BitFlippingEnv()


def build(buffer_size=10, observation_space=ENV.observation_space, **kwargs):
    return HerReplayBuffer(buffer_size, observation_space, ENV.action_space, **kwargs)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"n_sampled_goal": -1}, "n_sampled_goal=-1"),
        ({"buffer_size": 0}, "buffer_size=0"),
        ({"n_envs": 0}, "n_envs=0"),
        ({"n_steps": 0}, "n_steps=0"),
        ({"gamma": 1.5}, "gamma=1.5"),
        ({"demonstration_fraction": -0.5}, "demonstration_fraction=-0.5"),
        ({"relabel_done": "sometimes"}, "relabel_done='sometimes'"),
        ({"success_reward": float("nan")}, "success_reward=nan"),
        ({"success_reward": float("inf")}, "success_reward=inf"),
        ({"optimize_memory_usage": True}, "optimize_memory_usage"),
        ({"copy_info_dict": True}, "copy_info_dict"),
        ({"goal_selection_strategy": "past"}, "future"),
        ({"priority": "best"}, "td_error"),
        ({"goal_parts": 0}, "goal_parts=0"),
        ({"goal_parts": 4}, "goal_parts=4"),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(bad, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        build(**bad)


@pytest.mark.parametrize("priority", PRIORITIES)
def test_unknown_options_of_a_priority_are_refused(priority):
    with pytest.raises(TypeError):
        build(priority=priority, priority_kwargs={"unknown": 1})


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
        (space_with(desired_goal=spaces.Box(0, 1, (3,))), "achieved_goal has 1 entries"),
    ],
)
def test_a_space_that_cannot_be_stored_is_refused(space, named):
    with pytest.raises(ValueError, match=named):
        build(observation_space=space)
