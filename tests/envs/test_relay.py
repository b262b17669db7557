"""Relay sub-goals: widened goals, their rewards, and that evaluation sees the task alone."""

from dataclasses import asdict, replace

import gymnasium as gym
import numpy as np
import pytest

from rlher.config.environment import EnvConfig, RelayConfig
from rlher.core.errors import UserError
from rlher.envs.make import make_env
from rlher.envs.relay import RelayGoals

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


def relay(**keys) -> RelayConfig:
    return RelayConfig(enabled=True, hand=[0, 2], object=[2, 4], origin=ORIGIN.tolist(), **keys)


def wrapped(training: bool = True, **keys) -> RelayGoals:
    return RelayGoals(PushEnv(), asdict(relay(**keys)), (-1.0, 0.0), training)


def play(env: gym.Env, steps: int = 400):
    """Yield each step's observation, reward, end and the environment's own observation."""
    observation, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for step in range(1, steps + 1):
        observation, reward, terminated, _, _ = env.step(env.action_space.sample())
        yield observation, reward, terminated, env.unwrapped._observe()
        if terminated or step % 10 == 0:
            env.reset()


def test_goals_are_relative_to_the_origin_and_use_one_slot():
    kinds = set()
    for seen, _, _, plain in play(wrapped()):
        hand, thing = plain["observation"][:2], plain["observation"][2:]
        np.testing.assert_allclose(seen["achieved_goal"], np.concatenate([thing - ORIGIN, hand - ORIGIN]))
        to_object = bool(seen["desired_goal"][2:].any())
        kinds.add(to_object)
        expected = [np.zeros(2), thing - ORIGIN] if to_object else [plain["desired_goal"] - ORIGIN, np.zeros(2)]
        np.testing.assert_allclose(seen["desired_goal"], np.concatenate(expected))
        assert np.array_equal(seen["observation"], plain["observation"])
    assert kinds == {True, False}


def test_step_returns_compute_reward_of_the_goal_it_shows():
    env = wrapped()
    paid = {True: set(), False: set()}
    for seen, reward, _, _ in play(env):
        assert reward == env.compute_reward(seen["achieved_goal"], seen["desired_goal"], {})
        paid[bool(seen["desired_goal"][2:].any())].add(reward)
    assert paid[False] == {-1.0, 0.0}
    assert -1.0 in paid[True]


def test_a_reward_that_does_not_depend_on_the_goal_stays():
    costly = gym.wrappers.TransformReward(PushEnv(), lambda reward: reward - 0.25)
    env = RelayGoals(costly, asdict(relay()), (-1.0, 0.0), True)
    for seen, reward, _, _ in play(env):
        assert reward == env.compute_reward(seen["achieved_goal"], seen["desired_goal"], {}) - 0.25


@pytest.mark.parametrize(
    "keys",
    [{"hand": [0, 1]}, {"object": [3, 5]}, {"hand": [2, 0]}, {"object": [2, 3, 4]}, {"origin": [0.0]}],
    ids=str,
)
def test_places_that_do_not_fit_the_goal_are_refused(keys: dict):
    config = EnvConfig(id="PlanePush-v0", reward_range=[-1.0, 0.0], relay=replace(relay(), **keys))
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


def test_an_episode_ends_with_the_task_goal():
    """Otherwise the last reward would not explain why it ended."""
    ends = [(seen, reward) for seen, reward, terminated, _ in play(wrapped(), 3000) if terminated]
    assert ends
    assert all(reward == 0 and not seen["desired_goal"][2:].any() for seen, reward in ends)


@pytest.mark.parametrize("keys", [{"training": False}, {"probability": 0.0}, {"distance": 100.0}])
def test_only_the_task_is_the_goal(keys: dict):
    assert not any(seen["desired_goal"][2:].any() for seen, *_ in play(wrapped(**keys)))
