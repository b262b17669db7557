"""Action repeat, and what only training has: reward offset, end after a fall."""

from dataclasses import replace

import numpy as np
import pytest
from hostile_envs import LineEnv

from rlher.config.conf_files import read_env_config
from rlher.config.environment import EnvConfig
from rlher.core.errors import UserError
from rlher.envs.make import make_env
from rlher.envs.wrappers import ActionRepeat, RewardOffset, TruncateAfterFall


class Counter(LineEnv):
    """Returns the number of the step as reward; ends after seven steps."""

    def step(self, action):
        observation, *_ = super().step(action)
        return observation, float(self.steps), self.steps == 7, False, {"step": self.steps}


@pytest.mark.parametrize(("last_reward", "rewards"), [(False, [6.0, 15.0, 7.0]), (True, [3.0, 6.0, 7.0])])
def test_repeats_until_the_episode_ends(last_reward: bool, rewards: list[float]):
    env = ActionRepeat(Counter(), 3, last_reward)
    env.reset()
    steps = [env.step(np.zeros(1)) for _ in range(3)]
    assert [reward for _, reward, *_ in steps] == rewards
    assert [info["step"] for *_, info in steps] == [3, 6, 7]
    assert [terminated for _, _, terminated, _, _ in steps] == [False, False, True]


def test_offset_shifts_step_and_compute_reward_alike():
    env = RewardOffset(LineEnv(), -1.0)
    goal = env.reset(seed=0)[0]["desired_goal"]
    observation, reward, *_ = env.step(np.zeros(1))
    assert reward == env.compute_reward(observation["achieved_goal"], goal, {}) == -2.0
    batch = np.array([goal, goal + 1])
    assert env.compute_reward(batch, goal, {}).tolist() == [-1.0, -2.0]


@pytest.mark.parametrize(("training", "expected"), [(True, {-1.0, 0.0}), (False, {0.0, 1.0})])
def test_a_maze_has_shifted_rewards_in_training_only(training: bool, expected: set[float]):
    config = EnvConfig(
        id="PointMaze_Open-v3", success_key="success", success_reward=1.0, reward_range=[0.0, 1.0], reward_offset=-1.0
    )
    env = make_env(config, training=training)
    observation, _ = env.reset(seed=0)
    goal = observation["desired_goal"]
    reward = env.get_wrapper_attr("compute_reward")
    assert {float(reward(goal, goal, {})), float(reward(goal + 10, goal, {}))} == expected
    assert env.step(env.action_space.sample())[1] in expected
    assert (config.training_success_reward, config.training_reward_range) == (0.0, [-1.0, 0.0])
    env.close()


@pytest.mark.parametrize("training", [True, False])
def test_only_training_ends_soon_after_a_block_fell(training: bool):
    env = make_env(replace(read_env_config("FetchPush-v4"), fall_height=0.3), training=training)
    for _ in range(2):
        env.reset(seed=0)
        simulator = env.unwrapped
        beside_the_table = [2.0, 0.75, 0.6, 1, 0, 0, 0]
        simulator._utils.set_joint_qpos(simulator.model, simulator.data, "object0:joint", beside_the_table)
        steps = [env.step(np.zeros(4)) for _ in range(50)]
        fallen = [observation["achieved_goal"][2] < 0.3 for observation, *_ in steps]
        ends = [truncated for *_, truncated, _ in steps]
        assert ends.index(True) == (fallen.index(True) + TruncateAfterFall.KEPT_STEPS - 1 if training else 49)
    env.close()


def test_goals_without_a_height_cannot_fall():
    config = replace(read_env_config("PointMaze_UMaze-v3"), fall_height=0.3)
    with pytest.raises(UserError):
        make_env(config, training=True)
