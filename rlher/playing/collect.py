"""Collect demonstrations: play episodes with an agent or a controller, and write them as a dataset."""

from contextlib import closing
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rlher.config.command_configs import CollectConfig
from rlher.core.console import print_note, warn
from rlher.core.errors import ReportedError, UserError
from rlher.core.signals import InterruptRequest
from rlher.envs.make import make_env
from rlher.evaluation.rollout import Policy, play_episodes, track_episodes
from rlher.her.datasets import METADATA_KEY, new_dataset_path, write_dataset
from rlher.playing.episode_sources import EpisodeSource, find_agent_or_controller
from rlher.run.metadata import package_versions

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

MAX_PLAYED = 10
"""With ``successes_only``, episodes played at most, per episode asked for."""


def collect_dataset(config: CollectConfig) -> dict[str, Any]:
    """Play episodes, write the ones that are kept, and return what ``rlher collect --json`` prints.

    :raises UserError: there is no such agent, controller or environment, the dataset cannot be written, or no episode
        is kept.
    :raises ReportedError: environment or controller failed; the episodes before are written.
    """
    source = find_agent_or_controller(config)
    env_config = source.env_config
    # As in training, the reward of a repeated action is that of its last step. The environment has no training aids.
    with closing(make_env(env_config, training=True)) as env:
        policy = source.make_policy(env)
        folder = new_dataset_path(config.output, f"{env_config.label}-{source.dataset_suffix}")
        kept, outcomes, interrupted, failure = _play(env, policy, config)
        if failure and not kept:
            raise failure
        if not kept:
            reason = f"none of {len(outcomes):,} episodes ended in success" if outcomes else "no episode was finished"
            raise UserError(f"nothing was written: {reason}; leave successes_only out to look at the others.")
        if len(kept) < config.episodes and not interrupted and not failure:
            warn(f"only {len(kept):,} of {len(outcomes):,} episodes ended in success; these are written.")
        success_rate = sum(outcomes) / len(outcomes)
        metadata = _metadata(config, source, success_rate)
        write_dataset(folder, kept, env, env_config.max_episode_steps, metadata)
    if failure:
        print_note(f"the {len(kept):,} episodes before the failure are in {folder}")
        raise failure
    return {
        "folder": str(folder),
        "episodes": len(kept),
        "steps": sum(map(len, kept)),
        "played": len(outcomes),
        "successes": sum(outcomes),
        "interrupted": interrupted,
        "success_rate": success_rate,
    }


def _play(
    env: gym.Env, policy: Policy, config: CollectConfig
) -> "tuple[list[EpisodeBuffer], list[bool], bool, ReportedError | None]":
    """Play until enough episodes are kept, the limit is reached, an episode fails, or the user asks to stop.

    :return: the episodes to write; whether each episode that was played succeeded; whether the user asked to stop; the
        error of the episode that failed.
    """
    kept: list[EpisodeBuffer] = []
    outcomes: list[bool] = []
    failure: ReportedError | None = None
    recorder = EpisodeRecorder(env)
    limit = config.episodes * (MAX_PLAYED if config.successes_only else 1)
    seeds = range(config.seed, config.seed + limit)
    # With `successes_only` it is not known how many episodes must be played.
    total = None if config.successes_only else limit
    interrupt_request = InterruptRequest()
    with interrupt_request.catch_signals():
        try:
            for episode in track_episodes(play_episodes(recorder, policy, seeds), total):
                outcomes.append(episode.success)
                if episode.success or not config.successes_only:
                    kept.append(recorder.recorded(episode.seed))
                if len(kept) == config.episodes or interrupt_request.requested:
                    break
        except ReportedError as error:
            failure = error
    return kept, outcomes, interrupt_request.requested, failure


class EpisodeRecorder(gym.Wrapper):
    """Records the episode since the last reset."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and begin a new recording."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._observations = [deepcopy(observation)]
        self._steps: list[tuple[Any, ...]] = []
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and record."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._observations.append(deepcopy(observation))
        self._steps.append((np.copy(action), float(reward), terminated, truncated, info["is_success"]))
        return observation, reward, terminated, truncated, info

    def recorded(self, seed: int) -> "EpisodeBuffer":
        """Return the episode since the last reset, which had this seed."""
        from minari.data_collector import EpisodeBuffer  # takes a while to import

        observations = {key: np.stack([obs[key] for obs in self._observations]) for key in self._observations[0]}
        actions, rewards, terminations, truncations, successes = map(np.array, zip(*self._steps, strict=True))
        steps = {"actions": actions, "rewards": rewards, "terminations": terminations, "truncations": truncations}
        infos = {"is_success": np.append(False, successes)}
        return EpisodeBuffer(seed=seed, observations=observations, infos=infos, **steps)


def _metadata(config: CollectConfig, source: EpisodeSource, success_rate: float) -> dict[str, Any]:
    """Return the metadata of the dataset; ``algorithm_name`` is a key of Minari."""
    return {
        "algorithm_name": source.name,
        METADATA_KEY: {
            "env": source.env_config.id,
            "action_repeat": source.env_config.action_repeat,
            "controller": source.name,
            "success_rate": success_rate,
            "successes_only": config.successes_only,
            "seed": config.seed,
            "packages": package_versions(),
        },
    }
