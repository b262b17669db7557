"""What `rlher enjoy` shows: an agent, a controller, or the episodes of a dataset, which are played again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import gymnasium as gym
import numpy as np
from omegaconf import OmegaConf

from rlher.config.commands import WatchConfig
from rlher.config.environment import EnvConfig
from rlher.config.key import to_object
from rlher.core.errors import DamagedFile, UserError, first_line
from rlher.core.safe_read import read_json
from rlher.demonstrations.collecting import controller_name, plain_env
from rlher.demonstrations.controllers import load_controller
from rlher.demonstrations.datasets import METADATA, data_folder, origin, read_dataset
from rlher.envs.contract import validate_goal_env
from rlher.envs.registration import read_yaml, yaml_names
from rlher.evaluation.agent import choose_model
from rlher.evaluation.rollout import Policy

Load = Callable[[str | None], tuple[gym.Env, Policy]]


@dataclass(frozen=True)
class Watched:
    """Who plays the episodes that are shown.

    :param keys: that identify it in JSON output.
    :param folder: of the video, if none is named.
    :param load: makes the environment with a render mode, and the policy in it.
    :param seeds: of the episodes.
    """

    name: str
    keys: dict[str, str]
    folder: Path
    env: EnvConfig
    load: Load
    seeds: Iterable[int]


def choose_watched(config: WatchConfig) -> Watched:
    """Return what the keys of a command name.

    :raises UserError: there is no such agent, controller, environment or dataset.
    """
    if config.run and (data := data_folder(Path(config.run))):
        if config.agent or config.controller:
            raise UserError(f"{config.run} is a dataset, which is played as it is; leave agent= and controller= out.")
        return _dataset(config.run, data / METADATA, config.env)
    if config.env is not None or config.controller is not None:
        name, env = controller_name(config), validate_goal_env(config.env).config  # type: ignore[arg-type]

        def load(mode: str | None) -> tuple[gym.Env, Policy]:
            made = plain_env(env, mode)
            return made, load_controller(name, made, env.id)

        return Watched(name, {"controller": name, "env": env.id}, Path(), env, load, count(config.seed))
    chosen = choose_model(config)

    def load_agent(mode: str | None) -> tuple[gym.Env, Policy]:
        agent = chosen.load(mode)
        return agent.env, agent.policy

    folder = Path() if config.agent else chosen.run.folder
    return Watched(chosen.name, chosen.keys, folder, chosen.run.config.env, load_agent, count(config.seed))


def _dataset(path: str, file: Path, env: EnvConfig | None) -> Watched:
    """Return the episodes of a dataset, from their seeds and actions.

    :param file: its metadata.
    :param env: None: the one that the dataset names, if it is one of rlher's; another may be a stranger's code.
    """
    try:
        env_id, action_repeat = origin(read_json(file))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedFile(file, first_line(error)) from error
    if env is None and env_id not in yaml_names():
        raise UserError(f"{path} was collected in {env_id}; add env=<name>, with env.modules if it is your own.")
    env = env or to_object(OmegaConf.merge(OmegaConf.structured(EnvConfig), read_yaml(str(env_id))))
    env = replace(env, action_repeat=action_repeat)
    plain = plain_env(env, None)
    plain.close()
    data = read_dataset(path, plain.observation_space, plain.action_space)  # type: ignore[arg-type]
    if None in data.seeds:
        raise UserError(f"{path} has no seeds, without which its episodes cannot be played again.")
    load = lambda mode: (plain_env(env, mode), Replay([each.actions for each in data.trajectories]))  # noqa: E731
    return Watched(path, {"dataset": path}, Path(path), env, load, data.seeds)  # type: ignore[arg-type]


class Replay:
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
