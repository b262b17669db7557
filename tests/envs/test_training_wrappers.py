"""Action repeat and reward offset in training; evaluation keeps the environment's own rewards."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from rlher.config.environment import EnvConfig, RelayConfig
from rlher.core.errors import UserError
from rlher.envs.make import make_env
from rlher.envs.training_wrappers import ActionRepeat, RewardOffset, SuccessDistance


class Counter(gym.Env):
    """Returns the number of the step as reward; ends after seven steps."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps), float(self.steps), self.steps == 7, False, {"step": self.steps}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.asarray(achieved_goal).sum(axis=-1)


@pytest.mark.parametrize(("last_reward", "rewards"), [(False, [6.0, 15.0, 7.0]), (True, [3.0, 6.0, 7.0])])
def test_repeats_until_the_episode_ends(last_reward: bool, rewards: list[float]):
    env = ActionRepeat(Counter(), 3, last_reward)
    env.reset()
    steps = [env.step(np.zeros(1)) for _ in range(3)]
    assert [reward for _, reward, *_ in steps] == rewards
    assert [info["step"] for *_, info in steps] == [3, 6, 7]
    assert [terminated for _, _, terminated, _, _ in steps] == [False, False, True]


def test_offset_shifts_step_and_compute_reward_alike():
    env = RewardOffset(Counter(), -1.0)
    env.reset()
    observation, reward, *_ = env.step(np.zeros(1))
    assert reward == env.compute_reward(observation, None, {}) == 0.0
    batch = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(env.compute_reward(batch, None, {}), batch.sum(axis=1) - 1)


@pytest.mark.parametrize(("training", "expected"), [(True, {-1.0, 0.0}), (False, {0.0, 1.0})])
def test_a_maze_has_shifted_rewards_in_training_only(training: bool, expected: set[float]):
    cfg = EnvConfig(
        id="PointMaze_Open-v3", success_key="success", success_reward=1.0, reward_range=[0.0, 1.0], reward_offset=-1.0
    )
    env = make_env(cfg, training=training)
    observation, _ = env.reset(seed=0)
    goal = observation["desired_goal"]
    reward = env.get_wrapper_attr("compute_reward")
    assert {float(reward(goal, goal, {})), float(reward(goal + 10, goal, {}))} == expected
    assert env.step(env.action_space.sample())[1] in expected
    assert (cfg.training_success_reward, cfg.training_reward_range) == (0.0, [-1.0, 0.0])
    env.close()


FETCH = EnvConfig(
    id="FetchSlide-v4", success_key="is_success", success_reward=0.0, reward_range=[-1.0, 0.0], ends_on_success=False
)


@pytest.mark.parametrize(("training", "gap", "expected"), [(True, 0.03, -1), (True, 0.01, 0), (False, 0.03, 0)])
def test_success_distance_is_another_one_in_training_only(training: bool, gap: float, expected: float):
    env = make_env(replace(FETCH, training_success_distance=0.02), training=training)
    observation, _ = env.reset(seed=0)
    env.unwrapped.goal = observation["achieved_goal"] + [gap, 0, 0]  # type: ignore[attr-defined]
    observation, reward, _, _, info = env.step(np.zeros(4))
    assert (reward, info["is_success"]) == (expected, 1)
    achieved, desired = (observation[key][None] for key in ("achieved_goal", "desired_goal"))
    assert env.get_wrapper_attr("compute_reward")(achieved, desired, [info]) == expected
    env.close()


def test_costs_of_a_wrapper_stay():
    class Cost(gym.Wrapper):
        def step(self, action):
            observation, reward, *rest = self.env.step(action)
            return observation, reward - 0.25, *rest

    env = SuccessDistance(Cost(gym.make("FetchSlide-v4")), 1e-9, (-1.0, 0.0))
    observation, _ = env.reset(seed=0)
    env.unwrapped.goal = observation["achieved_goal"]
    assert env.step(np.zeros(4))[1] == -1.25
    env.close()


def test_with_relay_sub_goals_both_slots_have_their_distance():
    relay = RelayConfig(enabled=True, hand=[0, 3], object=[3, 6], origin=[1.4, 0.75, 0.45], reach_threshold=0.1)
    env = make_env(replace(FETCH, training_success_distance=0.02, relay=relay), training=True)
    compute_reward = env.get_wrapper_attr("compute_reward")
    achieved = np.array([0.3, 0, 0, 0.2, 0, 0])
    goals = np.array([[0.33, 0, 0, 0, 0, 0], [0.31, 0, 0, 0, 0, 0], [0, 0, 0, 0.27, 0, 0]])
    assert compute_reward(np.stack([achieved] * 3), goals, [{}] * 3).tolist() == [-1, 0, 0]
    env.close()


@pytest.mark.parametrize("change", [{"ends_on_success": True}, {"reward_range": None}, {"reward_range": [-1.0, None]}])
def test_success_distance_needs_sparse_rewards_and_episodes_that_go_on(change: dict):
    cfg = replace(FETCH, training_success_distance=0.02, **change)
    make_env(cfg).close()
    with pytest.raises(UserError, match=r"env\.training_success_distance"):
        make_env(cfg, training=True)
