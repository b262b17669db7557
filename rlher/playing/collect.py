"""Collect demonstrations: play episodes with an agent or a controller, and write them as a dataset."""

from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rlher.config.command_flags import CollectConfig
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


@dataclass
class PlayedEpisodes:
    """The episodes that were played for a dataset.

    :param kept: the episodes to write.
    :param outcomes: whether each episode that was played succeeded.
    :param interrupted: whether the user asked to stop.
    :param failure: the error that ended the last episode; None: there was none.
    """

    kept: "list[EpisodeBuffer]" = field(default_factory=list)
    outcomes: list[bool] = field(default_factory=list)
    interrupted: bool = False
    failure: ReportedError | None = None

    @property
    def success_rate(self) -> float:
        """Success rate of the episodes that were played."""
        return sum(self.outcomes) / len(self.outcomes)


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
        folder = new_dataset_path(config.output, f"{env_config.label}-{source.dataset_name}")
        played = _play(env, policy, config)
        kept, outcomes = played.kept, played.outcomes
        if not kept:
            reason = f"none of {len(outcomes):,} episodes ended in success" if outcomes else "no episode was finished"
            raise played.failure or UserError(
                f"nothing was written: {reason}; leave successes_only out to look at the others."
            )
        if len(kept) < config.episodes and not played.interrupted and not played.failure:
            warn(f"only {len(kept):,} of {len(outcomes):,} episodes ended in success; these are written.")
        metadata = _metadata(config, source, played.success_rate)
        write_dataset(folder, kept, env, env_config.max_episode_steps, metadata)
    if played.failure:
        print_note(f"the {len(kept):,} episodes before the failure are in {folder}")
        raise played.failure
    return {
        "folder": str(folder),
        "episodes": len(kept),
        "steps": sum(map(len, kept)),
        "played": len(outcomes),
        "successes": sum(outcomes),
        "interrupted": played.interrupted,
        "success_rate": played.success_rate,
    }


def _play(env: gym.Env, policy: Policy, config: CollectConfig) -> PlayedEpisodes:
    """Play until enough episodes are kept, the limit is reached, an episode fails, or the user asks to stop."""
    played = PlayedEpisodes()
    recorder = EpisodeRecorder(env)
    limit = config.episodes * (MAX_PLAYED if config.successes_only else 1)
    episodes = play_episodes(recorder, policy, range(config.seed, config.seed + limit))
    # With `successes_only` it is not known how many episodes must be played.
    total = None if config.successes_only else limit
    interrupt_request = InterruptRequest()
    with interrupt_request.catch_signals():
        try:
            for episode in track_episodes(episodes, total):
                played.outcomes.append(episode.success)
                if episode.success or not config.successes_only:
                    played.kept.append(recorder.recorded(episode.seed))
                if len(played.kept) == config.episodes or interrupt_request.requested:
                    break
        except ReportedError as error:
            played.failure = error
    played.interrupted = interrupt_request.requested
    return played


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
        actions, rewards, terminations, truncations, successes = zip(*self._steps, strict=True)
        return EpisodeBuffer(
            seed=seed,
            observations=observations,
            actions=np.array(actions),
            rewards=np.array(rewards),
            terminations=np.array(terminations),
            truncations=np.array(truncations),
            infos={"is_success": np.array([False, *successes])},
        )


def _metadata(config: CollectConfig, source: EpisodeSource, success_rate: float) -> dict[str, Any]:
    """Return what the dataset says about itself; ``algorithm_name`` is Minari's own key."""
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
