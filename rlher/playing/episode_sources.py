"""Where the episodes of `rlher enjoy` and `rlher collect` come from: an agent, a controller, or a recorded dataset.

A controller is a function from an observation to an action, or a class whose objects are such functions. An object is
made with the environment as its argument; if it has a method ``reset``, that is called before each episode.

The controllers of rlher are in :mod:`rlher.playing.controllers`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlher.config.command_configs import EpisodeSourceConfig
from rlher.config.conf_files import conf_files, read_env_config
from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError, UserError, as_run_error, did_you_mean
from rlher.core.user_code import import_object
from rlher.envs.contract import check_or_raise
from rlher.envs.make import make_env
from rlher.evaluation.models import choose_model
from rlher.evaluation.rollout import Policy
from rlher.her.datasets import collected_env, data_folder, read_dataset
from rlher.playing.controllers import SCRIPTED_CONTROLLERS

SCRIPTED = "scripted"
"""Value of ``controller=`` for the controller that comes with rlher."""


@dataclass(frozen=True)
class EpisodeSource:
    """Where episodes come from: a policy, the environment that it plays in, and the seeds of the episodes.

    :param name: name of the run, agent, controller or dataset.
    :param identity: keys and values that identify it in JSON output.
    :param env_config: environment, without training aids.
    :param make_policy: returns the policy in such an environment.
    :param seeds: seeds of the episodes.
    :param dataset_suffix: end of the name of a collected dataset.
    :param folder: folder for videos.
    """

    name: str
    identity: dict[str, str]
    env_config: EnvConfig
    make_policy: Callable[[gym.Env], Policy]
    seeds: Iterable[int]
    dataset_suffix: str = ""
    folder: Path = Path()


def find_episode_source(config: EpisodeSourceConfig) -> EpisodeSource:
    """Return the agent, controller or dataset that the keys of a command name.

    :raises UserError: there is no such agent, controller, environment or dataset.
    """
    if not config.run or not data_folder(Path(config.run)):
        return find_agent_or_controller(config)
    if config.agent or config.controller:
        raise UserError(f"{config.run} is a dataset, which is played as it is; leave agent= and controller= out.")
    return _dataset(config.run, config.env)


def find_agent_or_controller(config: EpisodeSourceConfig) -> EpisodeSource:
    """Return the agent or controller that the keys of a command name.

    :raises UserError: there is no such agent, controller or environment, or the keys name two of them.
    """
    if config.env is None and config.controller is None:
        return _agent(config)
    name = config.controller or SCRIPTED
    if config.env is None:
        raise UserError(f"controller={name} needs an environment; add env=<name>.")
    if config.run or config.agent:
        raise UserError("env= and controller= name a controller, and there is a run or agent as well; give one.")
    env_config = check_or_raise(config.env).config.without_training_aids()
    identity = {"controller": name, "env": env_config.id}
    make_policy = partial(load_controller, name)
    dataset_suffix = name.rpartition(":")[2]
    return EpisodeSource(
        name, identity, env_config, make_policy, seeds=count(config.seed), dataset_suffix=dataset_suffix
    )


def _agent(config: EpisodeSourceConfig) -> EpisodeSource:
    agent = choose_model(config)
    trained = agent.run.config
    return EpisodeSource(
        name=agent.name,
        identity=agent.identity,
        env_config=trained.env.without_training_aids(),
        make_policy=agent.load_policy,
        seeds=count(config.seed),
        dataset_suffix=trained.algo.name,
        folder=Path() if config.agent else agent.run.folder,
    )


def _dataset(path: str, env_config: EnvConfig | None) -> EpisodeSource:
    """Return the episodes of a dataset, from their seeds and actions.

    :param env_config: config of the environment. If None, the environment that the dataset names, if it is rlher's own;
        other environments may be a stranger's code.
    """
    env_id, action_repeat = collected_env(path)
    if env_config is None:
        if env_id not in conf_files("env"):
            raise UserError(f"{path} was collected in {env_id}; add env=<name>, with env.modules if it is your own.")
        env_config = read_env_config(str(env_id))
    env_config = replace(env_config, action_repeat=action_repeat).without_training_aids()
    with closing(make_env(env_config)) as env:
        trajectories = read_dataset(path, env.observation_space, env.action_space)  # type: ignore[arg-type]
    seeds = [trajectory.seed for trajectory in trajectories if trajectory.seed is not None]
    if len(seeds) < len(trajectories):
        raise UserError(f"{path} has no seeds, without which its episodes cannot be played again.")
    policy = RecordedActions([trajectory.actions for trajectory in trajectories])
    return EpisodeSource(path, {"dataset": path}, env_config, lambda env: policy, seeds, folder=Path(path))


class CheckedController:
    """A controller whose errors are reported as the user's, and whose actions fit the environment.

    :param name: name of the controller, for messages.
    :param act: function from an observation to an action.
    """

    def __init__(self, name: str, act: Callable[[dict[str, np.ndarray]], Any], action_space: spaces.Space) -> None:
        self._name = name
        self._act = act
        self._space = action_space

    def reset(self) -> None:
        """Begin an episode."""
        if hasattr(self._act, "reset"):
            self._act.reset()

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action, clipped to the bounds of the action space.

        :raises RunError: the controller raised, or returned no action of the space.
        """
        with as_run_error(f"controller={self._name}"):
            returned = self._act(observation)
            action = np.asarray(returned, dtype=self._space.dtype).reshape(self._space.shape or ())
        if isinstance(self._space, spaces.Box):
            action = np.clip(action, self._space.low, self._space.high)
        if not self._space.contains(action):
            raise RunError(f"controller={self._name} returned {returned!r}; it must return an action of {self._space}.")
        return action


def load_controller(name: str, env: gym.Env) -> CheckedController:
    """Return a controller for an environment.

    :param name: :data:`SCRIPTED`, or ``module:attribute`` of a user's controller.
    :raises UserError: there is no controller of that name, or no scripted controller for this environment.
    """
    spec: Any = env.unwrapped.spec
    controller: Any = SCRIPTED_CONTROLLERS.get(spec.name) if name == SCRIPTED else import_object("controller", name)
    if controller is None:
        raise UserError(
            f"rlher has no controller for {spec.id}{did_you_mean(spec.name, SCRIPTED_CONTROLLERS)}; use one of "
            f"{', '.join(SCRIPTED_CONTROLLERS)}, or your own with controller=<module>:<function>."
        )
    act = controller(env) if isinstance(controller, type) else controller
    return CheckedController(name, act, env.action_space)


class RecordedActions:
    """A policy that takes the actions of recorded episodes, whatever it observes.

    :param episodes: (steps, …) actions of each episode.
    """

    def __init__(self, episodes: Sequence[np.ndarray]) -> None:
        self._episodes = iter(episodes)
        self._actions: Iterator[np.ndarray] = iter(())

    def reset(self) -> None:
        """Begin the next episode."""
        self._actions = iter(next(self._episodes))

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the next action.

        :raises UserError: the episode was shorter when it was recorded.
        """
        if (action := next(self._actions, None)) is None:
            raise UserError("an episode goes on after its recorded end; give the environment it was collected in.")
        return action
