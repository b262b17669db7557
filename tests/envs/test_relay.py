"""Relay sub-goals: goals with two parts, their rewards, and when the hand is sent to the object."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from rlher.algos.exploration import sample_relay_goals
from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import EnvConfig, RelayConfig
from rlher.config.training import EngineConfig, RunConfig
from rlher.core.errors import UserError
from rlher.envs.make import make_env
from rlher.envs.relay import RelayGoals
from rlher.envs.vec_env import make_vec_env
from rlher.run.build_model import build_model

ORIGIN = np.array([1.0, -2.0])


class PushEnv(gym.Env):
    """A hand that pushes an object on a plane; `observation` is the hand's and the object's position."""

    def __init__(self) -> None:
        box = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        wide = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
        self.observation_space = gym.spaces.Dict(observation=wide, achieved_goal=box, desired_goal=box)
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hand, self.object, self.goal = (ORIGIN + self.np_random.uniform(-0.5, 0.5, 2) for _ in range(3))
        return self._observe(), {}

    def step(self, action):
        self.hand = self.hand + 0.2 * action
        if np.linalg.norm(self.hand - self.object) < 0.3:
            self.object = self.object + 0.2 * action
        observation = self._observe()
        reward = float(self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {}))
        return observation, reward, reward == 0, False, {"is_success": reward == 0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) > 0.2).astype(np.float64)

    def _observe(self):
        return {
            "observation": np.concatenate([self.hand, self.object]),
            "achieved_goal": self.object.copy(),
            "desired_goal": self.goal.copy(),
        }


gym.register("PlanePush-v0", PushEnv)


RELAY = RelayConfig(enabled=True, hand=[0, 2], origin=ORIGIN.tolist())


def wrapped(env: gym.Env | None = None) -> RelayGoals:
    return RelayGoals(env or PushEnv(), RELAY.hand, RELAY.origin, RELAY.reach_threshold, (-1.0, 0.0))


def play(env: gym.Env, steps: int = 400):
    """Yield each step's observation, reward, end and the environment's own observation."""
    observation, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for step in range(1, steps + 1):
        observation, reward, terminated, _, _ = env.step(env.action_space.sample())
        yield observation, reward, terminated, env.unwrapped._observe()
        if terminated or step % 10 == 0:
            env.reset()


def test_goals_are_relative_to_the_origin_and_have_a_part_for_the_hand():
    for seen, _, _, plain in play(wrapped()):
        hand, thing = plain["observation"][:2], plain["observation"][2:]
        np.testing.assert_allclose(seen["achieved_goal"], np.concatenate([thing - ORIGIN, hand - ORIGIN]))
        np.testing.assert_allclose(seen["desired_goal"], np.concatenate([plain["desired_goal"] - ORIGIN, np.zeros(2)]))
        assert np.array_equal(seen["observation"], plain["observation"])


def test_rewards_are_the_environments_own():
    costly = gym.wrappers.TransformReward(PushEnv(), lambda reward: reward - 0.25)
    rewards = set()
    for seen, reward, _, _ in play(wrapped(costly)):
        assert reward == costly.unwrapped.compute_reward(seen["achieved_goal"][:2], seen["desired_goal"][:2], {}) - 0.25
        rewards.add(reward)
    assert rewards == {-1.25, -0.25}


@pytest.mark.parametrize("keys", [{"hand": [0, 1]}, {"hand": [3, 5]}, {"hand": [2, 0]}, {"origin": [0.0]}], ids=str)
def test_places_that_do_not_fit_the_goal_are_refused(keys: dict):
    config = EnvConfig(id="PlanePush-v0", reward_range=[-1.0, 0.0], relay=replace(RELAY, **keys))
    with pytest.raises(UserError, match=f"env.relay.{next(iter(keys))}"):
        make_env(config)


def test_compute_reward_takes_batches_of_both_kinds():
    env = wrapped()
    seen = [observation for observation, *_ in play(env, 50)]
    achieved, desired = (np.array([obs[key] for obs in seen]) for key in ("achieved_goal", "desired_goal"))
    single = [env.compute_reward(a, d, {}) for a, d in zip(achieved, desired, strict=True)]
    assert np.array_equal(env.compute_reward(achieved, desired, {}), single)
    reached = np.concatenate([np.zeros((50, 2)), achieved[:, 2:]], axis=1)
    assert (env.compute_reward(achieved, reached, {}) == 0).all()
    missed = reached + np.array([0, 0, 2 * RELAY.reach_threshold, 0])
    assert (env.compute_reward(achieved, missed, {}) == -1).all()


def test_the_hand_is_sent_to_an_object_that_is_far():
    near, far = [0.1, 0.2, 0.1, 0.21], [0.1, 0.2, 0.4, 0.3]
    obs = {"achieved_goal": np.array([near, far] * 200), "desired_goal": np.array([[0.5, 0.6, 0, 0]] * 400)}
    shown = sample_relay_goals(obs, probability=0.5, distance=0.03)["desired_goal"]
    to_object = (shown == [0, 0, 0.1, 0.2]).all(axis=1)
    assert (shown[~to_object] == obs["desired_goal"][~to_object]).all()
    assert not to_object[::2].any()
    assert 70 < to_object[1::2].sum() < 130


def test_sub_goals_choose_actions_and_are_not_stored():
    env = EnvConfig(id="PlanePush-v0", success_key="is_success", reward_range=[-1.0, 0.0], relay=RELAY)
    algo = ALGORITHMS["ddpg"].config(name="ddpg", learning_starts=0, gradient_steps=1, batch_size=8, net_arch=[8])
    config = RunConfig(algo=algo, env=env, device="cpu", engine=EngineConfig(overlap=False))
    model = build_model(config, make_vec_env(env, n_envs=2))
    shown = []
    predict = model.predict

    def record_goals(observation, *arguments, **options):
        shown.extend(observation["desired_goal"][:, 2:])
        return predict(observation, *arguments, **options)

    model.predict = record_goals
    model.learn(100)
    assert 0.3 < np.any(shown, axis=1).mean() < 0.7
    stored = model.replay_buffer.storage.rows["obs"]["desired_goal"]
    assert stored[:, :2].any()
    assert not stored[:, 2:].any()
