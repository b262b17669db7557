"""Collect demonstrations: play episodes with an agent or a controller, and write them as a dataset."""

from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rlher.config.commands import CollectConfig, WatchConfig
from rlher.config.environment import EnvConfig, RelayConfig
from rlher.core.console import warn
from rlher.core.errors import UserError
from rlher.core.signals import StopRequest
from rlher.demonstrations.controllers import SCRIPTED, load_controller
from rlher.demonstrations.datasets import OWN, new_folder, write_dataset
from rlher.envs.contract import validate_goal_env
from rlher.envs.make import make_env
from rlher.envs.relay import widen_goals
from rlher.evaluation.agent import choose_model
from rlher.evaluation.rollout import Policy, play_episode, with_bar
from rlher.run.metadata import package_versions

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

MAX_PLAYED = 10
"""With ``successes_only``, episodes played at most, per episode asked for."""


@dataclass(frozen=True)
class Collected:
    """The result of `rlher collect`.

    :param folder: of the dataset.
    :param episodes: number of episodes written.
    :param steps: number of steps in them.
    :param played: number of episodes played to their end.
    :param successes: number of played episodes that ended in success.
    :param interrupted: whether Ctrl-C ended the collection early.
    """

    folder: Path
    episodes: int
    steps: int
    played: int
    successes: int
    interrupted: bool


@dataclass(frozen=True)
class Demonstrator:
    """A policy and the environment in which it is recorded.

    :param name: of the run, agent or controller.
    :param short_name: for the name of a dataset.
    :param policy: takes the observations of ``env``.
    """

    name: str
    short_name: str
    config: EnvConfig
    env: gym.Env
    policy: Policy


def collect(config: CollectConfig) -> Collected:
    """Play episodes, and write the ones that are kept.

    :raises UserError: there is no such agent, controller or environment, the dataset cannot be written, or no episode
        is kept.
    """
    demonstrator = _agent(config) if config.env is None and config.controller is None else _controller(config)
    env_config = demonstrator.config
    with closing(demonstrator.env):
        folder = new_folder(config.output, f"{env_config.label}-{demonstrator.short_name}")
        outcomes: list[bool] = []
        with (stop := StopRequest()).catch_signals():
            kept = list(with_bar(_play(demonstrator, config, outcomes, stop), config.episodes))
        if not kept:
            reason = f"none of {len(outcomes):,} episodes ended in success" if outcomes else "no episode was finished"
            raise UserError(f"nothing was written: {reason}; leave successes_only out to look at the others.")
        if len(kept) < config.episodes and not stop.requested:
            warn(f"only {len(kept):,} of {len(outcomes):,} episodes ended in success; these are written.")
        metadata = _metadata(config, demonstrator, sum(outcomes) / len(outcomes))
        write_dataset(folder, kept, demonstrator.env, env_config.max_episode_steps, metadata)
    return Collected(folder, len(kept), sum(map(len, kept)), len(outcomes), sum(outcomes), stop.requested)


def _play(
    demonstrator: Demonstrator, config: CollectConfig, outcomes: list[bool], stop: StopRequest
) -> "Iterator[EpisodeBuffer]":
    """Play until enough episodes are kept or the user asks to stop, and yield the episodes to write.

    :param outcomes: whether each episode that was played succeeded; extended here.
    """
    limit, kept = config.episodes * (MAX_PLAYED if config.successes_only else 1), 0
    recorder = Recorder(demonstrator.env, stop)
    while kept < config.episodes and len(outcomes) < limit:
        try:
            success = play_episode(recorder, demonstrator.policy, config.seed + len(outcomes)).success
        except KeyboardInterrupt:
            if not stop.at_step_boundary:
                raise
            return
        outcomes.append(success)
        if success or not config.successes_only:
            kept += 1
            yield recorder.recorded()


class Recorder(gym.Wrapper):
    """Records the episode since the last reset.

    :param stop: interrupts the episode before its next step, if the user asks for it.
    """

    def __init__(self, env: gym.Env, stop: StopRequest) -> None:
        super().__init__(env)
        self._stop = stop

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and begin a new recording."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._seed, self._observations = seed or 0, [deepcopy(observation)]
        self._steps: list[tuple[Any, ...]] = []
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and record.

        :raises KeyboardInterrupt: a stop was requested.
        """
        self._stop.raise_if_requested()
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._observations.append(deepcopy(observation))
        self._steps.append((np.copy(action), float(reward), terminated, truncated, info["is_success"]))
        return observation, reward, terminated, truncated, info

    def recorded(self) -> "EpisodeBuffer":
        """Return the episode since the last reset."""
        from minari.data_collector import EpisodeBuffer  # takes a while to import

        observations = {key: np.stack([each[key] for each in self._observations]) for key in self._observations[0]}
        *arrays, success = map(np.array, zip(*self._steps, strict=True))
        return EpisodeBuffer(
            None, self._seed, None, observations, *arrays, infos={"is_success": np.array([False, *success])}
        )


def controller_name(config: WatchConfig) -> str:
    """Return ``controller=``, or its default.

    :raises UserError: it has no environment, or an agent is given as well.
    """
    name = config.controller or SCRIPTED
    if config.env is None:
        raise UserError(f"controller={name} needs an environment; add env=<name>.")
    if config.run or config.agent:
        raise UserError("env= and controller= name a demonstrator, and so does the run or agent; give one of them.")
    return name


def _controller(config: CollectConfig) -> Demonstrator:
    """Return the demonstrator of ``controller=``."""
    name, env_config = controller_name(config), validate_goal_env(config.env).config  # type: ignore[arg-type]
    env = plain_env(env_config, training=True)
    return Demonstrator(name, name.rpartition(":")[2], env_config, env, load_controller(name, env, env_config.id))


def _agent(config: CollectConfig) -> Demonstrator:
    """Return the demonstrator of a run, or of an agent that comes with rlher."""
    chosen = choose_model(config)
    run, agent = chosen.run.config, chosen.load()
    agent.env.close()
    policy = agent.policy
    if run.env.relay.enabled:
        policy = lambda observation: agent.policy(widen_goals(observation, run.env.relay))  # noqa: E731
    return Demonstrator(chosen.name, run.algo.name, run.env, plain_env(run.env, training=True), policy)


def plain_env(config: EnvConfig, render_mode: str | None = None, training: bool = False) -> gym.Env:
    """Return the environment with its own goals and rewards.

    :param training: of repeated steps the last one's reward counts, not their sum.
    """
    return make_env(replace(config, relay=RelayConfig(), reward_offset=0.0), render_mode, training)


def _metadata(config: CollectConfig, demonstrator: Demonstrator, success_rate: float) -> dict[str, Any]:
    """Return what the dataset says about itself; ``algorithm_name`` is Minari's own key."""
    return {
        "algorithm_name": demonstrator.name,
        OWN: {
            "env": demonstrator.config.id,
            "action_repeat": demonstrator.config.action_repeat,
            "controller": demonstrator.name,
            "success_rate": success_rate,
            "successes_only": config.successes_only,
            "seed": config.seed,
            "packages": package_versions(),
        },
    }
