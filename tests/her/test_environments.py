"""The buffer with parking and PointMaze, whose rewards need corrections."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher.her import HerReplayBuffer

gym_robotics = pytest.importorskip("gymnasium_robotics")
highway_env = pytest.importorskip("highway_env")


def play(make, choose, steps, **kwargs):
    """Return a buffer filled from a real environment; `choose(env, obs)` returns the action."""
    env = DummyVecEnv([make])
    buffer = HerReplayBuffer(steps, env.observation_space, env.action_space, env=env, device="cpu", seed=0, **kwargs)
    env.seed(0)
    obs = env.reset()
    for _ in range(steps):
        action = np.array([choose(env.envs[0].unwrapped, {key: value[0] for key, value in obs.items()})])
        new, reward, done, infos = env.step(action)
        after = {key: value.copy() for key, value in new.items()}
        for key, value in infos[0].get("terminal_observation", {}).items():
            after[key][0] = value
        buffer.add(obs, after, action, reward, done, infos)
        obs = new
    return buffer


def test_a_relabelled_parking_crash_still_costs_five_and_ends_the_episode():
    """openai/baselines #720, HighwayEnv #473: compute_reward ignores crashes."""
    buffer = play(
        lambda: gym.make("parking-v0"),
        lambda env, obs: np.array([1.0, 0.0], dtype=np.float32),  # straight on, into the wall
        steps=120,
        n_sampled_goal=10**6,
        ends_on_success=True,
        success_reward=-0.12,
    )
    batch = buffer.sample(2000)
    rewards, dones = batch.rewards[1:, 0].numpy(), batch.dones[1:, 0].numpy().astype(bool)
    after = batch.next_observations["achieved_goal"][1:].numpy()
    goal = batch.next_observations["desired_goal"][1:].numpy()
    goal_rewards = buffer.env.envs[0].unwrapped.compute_reward(after, goal, None)
    crashed = np.abs(rewards - goal_rewards + 5) < 1e-3
    assert crashed.sum() > 10, "it did crash"
    assert np.abs(rewards - goal_rewards)[~crashed].max() < 1e-3
    assert dones[crashed].all()
    assert (dones[~crashed] == (goal_rewards[~crashed] >= -0.12)).all()


def test_rewards_follow_a_goal_that_moves_within_an_episode():
    """PointMaze pays for the goal shown after the step, so no part of the reward is goal-independent."""

    def towards(env, obs):
        gap = obs["desired_goal"] - obs["achieved_goal"]
        return np.clip(5 * gap - obs["observation"][2:], -1, 1).astype(np.float32)

    maze = [[1, 1, 1, 1, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 1, 1]]
    gym.register_envs(gym_robotics)
    buffer = play(
        lambda: gym.make("PointMaze_UMaze-v3", maze_map=maze, reset_target=True, max_episode_steps=150),
        towards,
        steps=450,
    )
    batch = buffer.sample(3000)
    assert set(np.unique(batch.rewards)) == {0.0, 1.0}
    gap = (batch.next_observations["achieved_goal"] - batch.next_observations["desired_goal"]).norm(dim=1)
    clear = (gap - 0.45).abs() > 1e-5
    assert ((gap <= 0.45) == (batch.rewards[:, 0] == 1))[clear].all()
    assert buffer.relabeller.reward_and_done.done_mode == "keep"
    assert not batch.dones.any()
