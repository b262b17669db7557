"""What `rlher enjoy` shows: an agent, a controller, or the episodes of a dataset, which are played again."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

from rlher.config.commands import WatchConfig
from rlher.config.conf_files import conf_files
from rlher.config.environment import EnvConfig
from rlher.config.key import to_object
from rlher.core.errors import DamagedFile, UserError, first_line
from rlher.core.safe_read import read_json
from rlher.demonstrations.datasets import METADATA, data_folder, origin, read_dataset
from rlher.demonstrations.players import Player, choose_player, own_task
from rlher.envs.make import make_env
from rlher.envs.registration import read_env_yaml


def choose_watched(config: WatchConfig) -> Player:
    """Return what the keys of a command name.

    :raises UserError: there is no such agent, controller, environment or dataset.
    """
    if not config.run or not (data := data_folder(Path(config.run))):
        return choose_player(config)
    if config.agent or config.controller:
        raise UserError(f"{config.run} is a dataset, which is played as it is; leave agent= and controller= out.")
    return _dataset(config.run, data / METADATA, config.env)


def _dataset(path: str, file: Path, env: EnvConfig | None) -> Player:
    """Return the episodes of a dataset, from their seeds and actions.

    :param file: its metadata.
    :param env: None: the one that the dataset names, if it is one of rlher's; another may be a stranger's code.
    """
    try:
        env_id, action_repeat = origin(read_json(file))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedFile(file, first_line(error)) from error
    if env is None and env_id not in conf_files("env"):
        raise UserError(f"{path} was collected in {env_id}; add env=<name>, with env.modules if it is your own.")
    env = env or to_object(OmegaConf.merge(OmegaConf.structured(EnvConfig), read_env_yaml(str(env_id))))
    env = own_task(replace(env, action_repeat=action_repeat))
    with closing(make_env(env)) as made:
        data = read_dataset(path, made.observation_space, made.action_space)  # type: ignore[arg-type]
    if None in data.seeds:
        raise UserError(f"{path} has no seeds, without which its episodes cannot be played again.")
    replay = Replay([each.actions for each in data.trajectories])
    return Player(path, "", {"dataset": path}, Path(path), env, lambda env: replay, data.seeds)  # type: ignore[arg-type]


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
