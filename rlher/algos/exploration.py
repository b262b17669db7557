"""Random actions that are held for some steps, in place of some of an agent's.

All random numbers come from NumPy's global generator and the action space's own, as those of Stable-Baselines3 do.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class RandomActions:
    """Uniformly random actions in place of some of an agent's, each held for some steps (cf. arXiv:2006.01782).

    :param action_space: bounded; actions are drawn from it.
    :param fraction: fraction of random actions, whatever ``hold`` is.
    :param hold: steps for which a random action is held, fewer where its episode ends.
    :param n_envs: number of environments.
    """

    def __init__(self, action_space: spaces.Box, fraction: float, hold: int, n_envs: int) -> None:
        self.action_space = action_space
        self.fraction = fraction
        self.hold = hold
        self.actions = np.zeros((n_envs, *action_space.shape), action_space.dtype)
        self.steps_left = np.zeros(n_envs, dtype=np.int64)  # for which each environment's action is still held

    def replace(self, actions: NDArray, warm_up: bool) -> list[int]:
        """Write random actions over some of the (n_envs, …) actions, and return the numbers of their environments.

        :param warm_up: with ``hold`` above 1, replace all of them.
        """
        probability = 1.0 if warm_up and self.hold > 1 else _begin_probability(self.fraction, self.hold)
        if probability == 0 and not self.steps_left.any():
            return []
        is_drawn = np.random.random(len(self.steps_left)) < probability
        for env in np.flatnonzero(is_drawn & (self.steps_left == 0)):
            self.actions[env] = self.action_space.sample()
            self.steps_left[env] = self.hold
        replaced = np.flatnonzero(self.steps_left).tolist()
        actions[replaced] = self.actions[replaced]
        self.steps_left[replaced] -= 1
        return replaced

    def reset(self, envs: int | slice = slice(None)) -> None:
        """Stop holding actions in these environments, because their episodes ended."""
        self.steps_left[envs] = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the held actions as JSON values."""
        return {"actions": self.actions.tolist(), "steps_left": self.steps_left.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`state_dict`.

        :raises Exception: it belongs to another model.
        """
        self.actions[...], self.steps_left[...] = state["actions"], state["steps_left"]


def _begin_probability(fraction: float, hold: int) -> float:
    """Return the probability p that a random action begins at a step without a held one.

    One cycle is (1 - p) / p of the agent's actions on average, then ``hold`` random ones. So p solves
    fraction = hold / (hold + (1 - p) / p).
    """
    return fraction / (hold - fraction * (hold - 1))
