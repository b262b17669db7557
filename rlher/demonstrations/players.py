"""Who plays the episodes of `rlher enjoy` and `rlher collect`: an agent or a controller.

A controller is a function from an observation to an action, or a class whose objects are such functions. An object is
made with the environment as its argument; if it has a method ``reset``, that is called before each episode.

The controllers of rlher are in :mod:`rlher.demonstrations.scripted`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlher.config.commands import WatchConfig
from rlher.config.environment import EnvConfig, RelayConfig
from rlher.core.errors import UserError, describe_error, did_you_mean
from rlher.core.user_code import import_named
from rlher.demonstrations.scripted import SCRIPTED_CONTROLLERS
from rlher.envs.contract import validate_goal_env
from rlher.envs.relay import widen_goals
from rlher.evaluation.agent import choose_model
from rlher.evaluation.rollout import Policy

SCRIPTED = "scripted"
"""Value of ``controller=`` for the controller that comes with rlher."""


@dataclass(frozen=True)
class Player:
    """A policy and the environment that it plays in.

    :param name: of the run, agent, controller or dataset.
    :param short_name: for the name of a dataset.
    :param keys: that identify it in JSON output.
    :param folder: for videos.
    :param env: with the task's own goals and rewards, see :func:`own_task`.
    :param make_policy: returns the policy in such an environment.
    :param seeds: of the episodes.
    """

    name: str
    short_name: str
    keys: dict[str, str]
    folder: Path
    env: EnvConfig
    make_policy: Callable[[gym.Env], Policy]
    seeds: Iterable[int]


def choose_player(config: WatchConfig) -> Player:
    """Return the agent or controller that the keys of a command name.

    :raises UserError: there is no such agent, controller or environment, or the keys name two players.
    """
    seeds = count(config.seed)
    if config.env is None and config.controller is None:
        chosen = choose_model(config)
        run, folder = chosen.run.config, Path() if config.agent else chosen.run.folder

        def make_agent(env: gym.Env) -> Policy:
            agent = chosen.load()
            agent.env.close()
            is_wide = run.env.relay.enabled  # its networks take goals of two parts
            return (lambda obs: agent.policy(widen_goals(obs, run.env.relay))) if is_wide else agent.policy

        return Player(chosen.name, run.algo.name, chosen.keys, folder, own_task(run.env), make_agent, seeds)
    name = config.controller or SCRIPTED
    if config.env is None:
        raise UserError(f"controller={name} needs an environment; add env=<name>.")
    if config.run or config.agent:
        raise UserError("env= and controller= name a player, and so does the run or agent; give one of them.")
    env_config = own_task(validate_goal_env(config.env).config)
    keys = {"controller": name, "env": env_config.id}
    make_controller = lambda env: load_controller(name, env, env_config.id)  # noqa: E731
    return Player(name, name.rpartition(":")[2], keys, Path(), env_config, make_controller, seeds)


def own_task(config: EnvConfig) -> EnvConfig:
    """Return an environment without what helps to learn: with its own goals and rewards."""
    return replace(config, relay=RelayConfig(), reward_offset=0.0)


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
