"""Relay sub-goals: in training, the agent is sometimes sent to the object instead of to the task's own goal.

In object tasks hindsight has nothing to learn from until the object moves, and random play hardly moves it. Relay HER
(Luo et al. 2022, arXiv:2208.00843) lets the agent also learn to reach the object, with the same network.

For this, goals get a second part for the hand. A virtual goal uses one part: the object is at a place, or the hand is.
:func:`rlher.algos.exploration.sample_relay_goals` sends the hand to the object. Stored goals are the task's own.

An exported agent uses a copy of this module, so it imports nothing of rlher.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Observation = dict[str, NDArray]


class RelayGoals(gym.ObservationWrapper):
    """Add a part for the hand to the goals of an object task.

    ``achieved_goal`` becomes ``[object, hand]``, and ``desired_goal`` becomes ``[goal, 0]``. A virtual goal may also be
    ``[0, position of the hand]``. Both parts are relative to ``origin``. So zero, which marks the unused part, is a
    position in the middle of the workspace. Rewards and ends of episodes are the environment's own.

    :param env: goal environment. Its goals are positions of an object, in the coordinates of the hand.
    :param hand: indices [first, end) of the hand's position in ``observation``.
    :param origin: centre of the workspace; it has the size of a goal.
    :param reach_threshold: distance below which the hand has reached its goal.
    :param rewards: reward of a step that does not reach the hand's goal, and reward of a step that reaches it.
    """

    def __init__(
        self,
        env: gym.Env,
        hand: Sequence[int],
        origin: Sequence[float],
        reach_threshold: float,
        rewards: tuple[float, float],
    ) -> None:
        super().__init__(env)
        self._hand = hand
        self._origin = origin
        self._reach_threshold = reach_threshold
        self._rewards = rewards
        inner: Any = env.observation_space
        goal = spaces.Box(-np.inf, np.inf, (2 * len(origin),), np.float64)
        self.observation_space = spaces.Dict({**inner.spaces, "achieved_goal": goal, "desired_goal": goal})

    def observation(self, observation: Observation) -> Observation:
        """Return an observation whose goals have both parts."""
        return add_hand_goal(observation, self._hand, self._origin)

    def compute_reward(self, achieved_goal: NDArray, desired_goal: NDArray, info: Any) -> Any:
        """Return the rewards of goals with both parts; the goals may have any leading shape."""
        size = len(self._origin)
        hand, hand_goal = achieved_goal[..., size:], desired_goal[..., size:]
        task_reward = self.env.get_wrapper_attr("compute_reward")(
            achieved_goal[..., :size] + self._origin, desired_goal[..., :size] + self._origin, info
        )
        miss, hit = self._rewards
        is_reached = np.linalg.norm(hand - hand_goal, axis=-1) <= self._reach_threshold
        return np.where((hand_goal != 0).any(axis=-1), np.where(is_reached, hit, miss), task_reward)


def add_hand_goal(observation: Observation, hand: Sequence[int], origin: Sequence[float]) -> Observation:
    """Return observations with the goals of :class:`RelayGoals`; the arrays may have any leading shape."""
    position = observation["observation"][..., slice(*hand)] - np.asarray(origin)
    parts = {"achieved_goal": position, "desired_goal": np.zeros_like(position)}
    goals = {key: np.concatenate([observation[key] - origin, part], axis=-1) for key, part in parts.items()}
    return {**observation, **goals}


def without_hand_goal(space: spaces.Dict) -> spaces.Dict:
    """Return the observation space without the hand's part, which :class:`RelayGoals` adds to goals."""
    (size,) = space["desired_goal"].shape or ()
    goal = spaces.Box(-np.inf, np.inf, (size // 2,), np.float64)
    return spaces.Dict({**space.spaces, "achieved_goal": goal, "desired_goal": goal})
