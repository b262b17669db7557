"""Exploration besides the action noise: held random actions, and sub-goals that send the hand to the object.

As in Stable-Baselines3, all random numbers come from NumPy's global generator and the action space's generator.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class RandomActions:
    """Replaces some actions of an agent by uniformly random ones, each held for some steps (cf. arXiv:2006.01782).

    :param action_space: bounded space from which random actions are sampled.
    :param fraction: fraction of random actions, for any value of ``hold``.
    :param hold: number of steps for which a random action is held, unless its episode ends earlier.
    :param n_envs: number of environments.
    """

    def __init__(self, action_space: spaces.Box, fraction: float, hold: int, n_envs: int) -> None:
        self.action_space = action_space
        self.fraction = fraction
        self.hold = hold
        self.actions = np.zeros((n_envs, *action_space.shape), action_space.dtype)
        self.steps_left = np.zeros(n_envs, dtype=np.int64)  # for each environment, steps of the held action

    def replace(self, actions: NDArray, warm_up: bool) -> list[int]:
        """Overwrite some of the (n_envs, …) actions by random ones, and return the indices of their environments.

        :param warm_up: replace all actions if ``hold`` is above 1.
        """
        probability = 1.0 if warm_up and self.hold > 1 else _begin_probability(self.fraction, self.hold)
        if probability == 0 and not self.steps_left.any():
            return []
        is_drawn = np.random.random(len(self.steps_left)) < probability
        for env_idx in np.flatnonzero(is_drawn & (self.steps_left == 0)):
            self.actions[env_idx] = self.action_space.sample()
            self.steps_left[env_idx] = self.hold
        replaced = np.flatnonzero(self.steps_left).tolist()
        actions[replaced] = self.actions[replaced]
        self.steps_left[replaced] -= 1
        return replaced

    def reset(self, env_indices: int | slice = slice(None)) -> None:
        """Stop holding actions in these environments, because their episodes ended."""
        self.steps_left[env_indices] = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the held actions as JSON values."""
        return {"actions": self.actions.tolist(), "steps_left": self.steps_left.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`state_dict`.

        :raises Exception: the state belongs to another model.
        """
        self.actions[...], self.steps_left[...] = state["actions"], state["steps_left"]


def _begin_probability(fraction: float, hold: int) -> float:
    """Return the probability p that a random action begins at a step at which no action is held.

    A cycle consists, on average, of (1 - p) / p actions of the agent and then ``hold`` random actions. So p solves
    fraction = hold / (hold + (1 - p) / p).
    """
    return fraction / (hold - fraction * (hold - 1))


def sample_relay_goals(obs: dict[str, NDArray], probability: float, distance: float) -> dict[str, NDArray]:
    """Return observations in which some desired goals are "move the hand to the object", see :mod:`rlher.envs.relay`.

    :param obs: (n_envs, …) observations by key; the achieved goals are ``[object, hand]``.
    :param probability: probability of the sub-goal while the hand is far from the object.
    :param distance: distance above which the hand is far from the object.
    """
    object_position, hand = np.split(obs["achieved_goal"], 2, axis=1)
    is_far = np.linalg.norm(hand - object_position, axis=1) > distance
    to_object = is_far & (np.random.random(len(is_far)) < probability)
    sub_goals = np.concatenate([np.zeros_like(object_position), object_position], axis=1)
    return {**obs, "desired_goal": np.where(to_object[:, None], sub_goals, obs["desired_goal"])}
