"""Relay sub-goals: while training, the goal is sometimes "move the hand to the object" instead of the task's own goal.

In object tasks hindsight has nothing to learn from until the object moves, and random play hardly moves it. Relay HER
(Luo et al. 2022, arXiv:2208.00843) lets the agent also learn to reach the object, with the same network.

An exported agent uses a copy of this module, so it imports nothing of rlher.
"""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rlher.config.environment import RelayConfig

Observation = dict[str, NDArray]


class RelayGoals(gym.Wrapper):
    """Add a part for the hand to the goals of an object task.

    ``achieved_goal`` becomes ``[object, hand]``. ``desired_goal`` becomes ``[goal, 0]``, or ``[0, object]`` while the
    agent is sent to the object. Both parts are relative to ``relay.origin``. So zero, which marks the unused part, is a
    position in the middle of the workspace.

    In training, an observation shows ``[0, object]`` with ``relay.probability`` if the hand is farther than
    ``relay.distance`` from the object. So the goal may change from step to step. Otherwise the task's goal is shown.
    Outside of training it is always shown, and rewards and ends of episodes are the environment's own.

    :param env: goal environment. Its goals are positions of an object, in the coordinates of the hand.
    :param relay: the keys of :class:`~rlher.config.environment.RelayConfig`: the indices of the hand and the object in
        ``observation``, and how often to switch goals. Both positions have the size of a goal.
    :param rewards: reward of a step that does not reach the goal, and reward of a step that reaches it.
    :param training: whether to switch goals.
    """

    def __init__(self, env: gym.Env, relay: dict[str, Any], rewards: tuple[float, float], training: bool) -> None:
        super().__init__(env)
        self._relay: Any = SimpleNamespace(**relay)
        self._rewards = rewards
        self._training = training
        inner: Any = env.observation_space
        self._size = inner["desired_goal"].shape[0]
        self._origin = np.asarray(self._relay.origin, dtype=np.float64)
        self._rng = np.random.default_rng()
        goal = spaces.Box(-np.inf, np.inf, (2 * self._size,), np.float64)
        self.observation_space = spaces.Dict({**inner.spaces, "achieved_goal": goal, "desired_goal": goal})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and choose the first goal."""
        if seed is not None:
            # The environment's np_random has the same seed. With another seed, published results could not be repeated.
            self._rng = np.random.default_rng(seed)
        observation, info = self.env.reset(seed=seed, options=options)
        return add_hand_goal(observation, self._relay, self._goes_to_object(observation)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, choose the next goal, and return the reward for that goal."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        # The last step shows the task's goal, because only this goal explains why the environment ended the episode.
        to_object = not (terminated or truncated) and self._goes_to_object(observation)
        relayed = add_hand_goal(observation, self._relay, to_object)
        if to_object:  # replace the task's part of the reward; keep what wrappers added, such as a cost
            compute_reward = self.env.get_wrapper_attr("compute_reward")
            task = float(compute_reward(observation["achieved_goal"], observation["desired_goal"], info))
            reward = float(reward) - task + float(self._reach_reward(relayed["achieved_goal"], relayed["desired_goal"]))
        return relayed, reward, terminated, truncated, info

    def compute_reward(self, achieved_goal: NDArray, desired_goal: NDArray, info: Any) -> Any:
        """Return the rewards of goals with both parts; the goals may have any leading shape."""
        achieved = achieved_goal[..., : self._size] + self._origin
        desired = desired_goal[..., : self._size] + self._origin
        task = self.env.get_wrapper_attr("compute_reward")(achieved, desired, info)
        to_object = (desired_goal[..., self._size :] != 0).any(axis=-1)
        return np.where(to_object, self._reach_reward(achieved_goal, desired_goal), task)

    def _reach_reward(self, achieved_goal: NDArray, desired_goal: NDArray) -> NDArray:
        miss, hit = self._rewards
        gap = np.linalg.norm(achieved_goal[..., self._size :] - desired_goal[..., self._size :], axis=-1)
        return np.where(gap > self._relay.reach_threshold, miss, hit)

    def _goes_to_object(self, observation: Observation) -> bool:
        if not self._training:
            return False
        state = observation["observation"]
        gap = np.linalg.norm(state[slice(*self._relay.hand)] - state[slice(*self._relay.object)])
        return bool(gap > self._relay.distance and self._rng.random() < self._relay.probability)


def add_hand_goal(observation: Observation, relay: "RelayConfig", to_object: bool = False) -> Observation:
    """Return observations with the goals of :class:`RelayGoals`; the arrays may have any leading shape.

    :param to_object: show the goal "reach the object" instead of the task's goal.
    """
    state = observation["observation"]
    hand, object_position = state[..., slice(*relay.hand)], state[..., slice(*relay.object)]
    origin = np.asarray(relay.origin, dtype=np.float64)
    nothing = np.zeros_like(hand, dtype=np.float64)
    parts = [nothing, object_position - origin] if to_object else [observation["desired_goal"] - origin, nothing]
    return {
        **observation,
        "achieved_goal": np.concatenate([observation["achieved_goal"] - origin, hand - origin], axis=-1),
        "desired_goal": np.concatenate(parts, axis=-1),
    }


def without_hand_goal(space: spaces.Dict, relay: "RelayConfig") -> spaces.Dict:
    """Return the observation space without the hand's part, which :class:`RelayGoals` adds to goals."""
    goal = spaces.Box(-np.inf, np.inf, (len(relay.origin),), np.float64)
    return spaces.Dict({**space.spaces, "achieved_goal": goal, "desired_goal": goal})
