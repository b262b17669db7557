"""Play episodes with a policy, with a progress bar."""

import sys
from collections.abc import Callable, Iterable, Iterator

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rlher.core.console import can_redraw
from rlher.core.rng import preserve_rng_state, set_random_seed
from rlher.evaluation.metrics import Episode

Observation = dict[str, np.ndarray]
Policy = Callable[[Observation], np.ndarray]


OnStep = Callable[[Episode, Observation, bool], None]
"""Takes the episode so far, its last observation, and whether the episode is over."""


@preserve_rng_state()
def play_episode(env: gym.Env, policy: Policy, seed: int, on_step: OnStep | None = None) -> Episode:
    """Play one episode.

    :param env: goal environment whose ``info`` has ``is_success`` and perhaps ``is_crash``.
    :param policy: maps one observation to one action; a method ``reset``, if it has one, is called first.
    :param seed: seed of the reset, and of the global generators, which are restored at the end; the same seed and
        policy give the same episode.
    :param on_step: called after the reset and after every step, for example by a video recorder.
    """
    set_random_seed(seed)
    if hasattr(policy, "reset"):
        policy.reset()
    episode = Episode(seed)
    observation, _ = env.reset(seed=seed)
    done = False
    while True:
        if on_step:
            on_step(episode, observation, done)
        if done:
            return episode
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        episode.reward += float(reward)
        episode.length += 1
        episode.success = bool(info["is_success"])
        episode.reached |= episode.success
        if "is_crash" in info:
            episode.crashed = bool(episode.crashed) or bool(info["is_crash"])
        done = terminated or truncated


def play_episodes(
    env: gym.Env, policy: Policy, seeds: Iterable[int], on_step: OnStep | None = None
) -> Iterator[Episode]:
    """Yield the episode of each seed as it ends; see :func:`play_episode` for the arguments."""
    for seed in seeds:
        yield play_episode(env, policy, seed, on_step)


def track_episodes(episodes: Iterator[Episode], total: int | None, enabled: bool = True) -> Iterator[Episode]:
    """Yield each episode as it ends, and show a progress bar if stderr is a terminal.

    :param total: number of episodes, None if unknown.
    """
    columns = (MofNCompleteColumn(), TextColumn("episodes"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    progress = Progress(
        *columns,
        console=Console(stderr=True),
        disable=not (enabled and can_redraw(sys.stderr)),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # otherwise printed lines would go to stderr
    )
    with progress:
        yield from progress.track(episodes, total=total)
