"""Controllers that demonstrate a task, loaded by name: one that comes with rlher, or the user's own function.

A controller is a function from an observation to an action, or a class whose objects are such functions. An object is
made with the environment as its argument; if it has a method ``reset``, that is called before each episode.

The controllers of rlher are in :mod:`rlher.demonstrations.scripted`.
"""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlher.core.errors import UserError, describe_error, did_you_mean
from rlher.core.user_code import import_named
from rlher.demonstrations.scripted import SCRIPTED_CONTROLLERS

SCRIPTED = "scripted"
"""Value of ``controller=`` for the controller that comes with rlher."""


class Controller:
    """A controller whose errors are reported as the user's, and whose actions fit the environment.

    :param name: of the controller, for messages.
    :param act: function from an observation to an action.
    """

    def __init__(self, name: str, act: Callable[[dict[str, np.ndarray]], Any], action_space: spaces.Space) -> None:
        self._name, self._act, self._space = name, act, action_space

    def reset(self) -> None:
        """Begin an episode."""
        if hasattr(self._act, "reset"):
            self._act.reset()

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action, clipped to the bounds of the action space.

        :raises UserError: the controller raised, or returned no action of the space.
        """
        try:
            returned = self._act(observation)
        except Exception as error:
            raise UserError(f"controller={self._name} raised {describe_error(error)}.") from error
        try:
            action = np.asarray(returned, dtype=self._space.dtype).reshape(self._space.shape or ())
            if isinstance(self._space, spaces.Box):
                action = np.clip(action, self._space.low, self._space.high)
            is_valid = self._space.contains(action)
        except (TypeError, ValueError):
            is_valid = False
        if not is_valid:
            raise UserError(
                f"controller={self._name} returned {returned!r}; it must return an action of {self._space}."
            )
        return action


def load_controller(name: str, env: gym.Env, env_id: str) -> Controller:
    """Return a controller for an environment.

    :param name: :data:`SCRIPTED`, or ``module:attribute`` of the user's own.
    :raises UserError: there is none of that name, or none for this environment.
    """
    without_version = env_id.rpartition(":")[2].rpartition("-v")[0]
    found: Any
    if name != SCRIPTED:
        found = import_named("controller", name)
    elif (found := SCRIPTED_CONTROLLERS.get(without_version)) is None:
        raise UserError(
            f"rlher has no controller for {env_id}{did_you_mean(without_version, SCRIPTED_CONTROLLERS)}; use one of "
            f"{', '.join(SCRIPTED_CONTROLLERS)}, or your own with controller=<module>:<function>."
        )
    return Controller(name, found(env) if isinstance(found, type) else found, env.action_space)
