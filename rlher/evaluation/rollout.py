"""Playing episodes with a policy and counting what came of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np

from rlher.core.stats import wilson

FINAL_SEEDS = 1_000_000
"""So far above the seeds that models are chosen by lie those of a run's final evaluation."""

Observation = dict[str, np.ndarray]
Policy = Callable[[Observation], np.ndarray]


@dataclass
class Episode:
    """What came of one episode.

    :param success: the goal was reached at the last step, the measure of the HER literature.
    :param reached: the goal was reached at any step.
    :param crashed: the environment reported a crash; None where it reports none.
    """

    seed: int
    success: bool = False
    reached: bool = False
    crashed: bool | None = None
    reward: float = 0.0
    length: int = 0

    @property
    def outcome(self) -> str:
        """How it ended: ``"success"``, ``"crashed"``, ``"reached, then left"`` or ``"missed"``."""
        if self.success:
            return "success"
        if self.crashed:
            return "crashed"
        return "reached, then left" if self.reached else "missed"

    def __str__(self) -> str:
        return f"{self.outcome:<18} return {self.reward:8.2f}   {self.length:4d} steps"


OnStep = Callable[[Episode, Observation, bool], None]
"""Is told an episode so far, the last observation, and whether it was the last."""


def play(env: gym.Env, policy: Policy, seed: int, on_step: OnStep | None = None) -> Episode:
    """Play one episode.

    :param env: goal environment whose ``info`` says ``is_success`` and perhaps ``is_crash``.
    :param policy: from one observation to one action.
    :param seed: seed of the reset; the same seed and policy give the same episode.
    :param on_step: called after the reset and after every step, to film it.
    """
    episode = Episode(seed)
    observation, _ = env.reset(seed=seed)
    done = False
    while not done:
        if on_step:
            on_step(episode, observation, False)
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        episode.reward += float(reward)
        episode.length += 1
        episode.success = bool(info["is_success"])
        episode.reached |= episode.success
        if "is_crash" in info:
            episode.crashed = bool(episode.crashed) or bool(info["is_crash"])
        done = terminated or truncated
    if on_step:
        on_step(episode, observation, True)
    return episode


@dataclass
class Evaluation:
    """Episodes and what they say together."""

    episodes: list[Episode] = field(default_factory=list)

    @property
    def success_rate(self) -> float:
        """Share of episodes that ended at their goal."""
        return float(np.mean([episode.success for episode in self.episodes]))

    @property
    def mean_reward(self) -> float:
        """Mean return of an episode."""
        return float(np.mean([episode.reward for episode in self.episodes]))

    def summary(self) -> dict[str, float | int | None]:
        """Return the rates, with the success rate's 95 % Wilson interval, as ``result.json`` holds them."""
        low, high = wilson(sum(episode.success for episode in self.episodes), len(self.episodes))
        crashes = [episode.crashed for episode in self.episodes if episode.crashed is not None]
        return {
            "success_rate": self.success_rate,
            "success_rate_low": low,
            "success_rate_high": high,
            "reached_rate": float(np.mean([episode.reached for episode in self.episodes])),
            "crash_rate": float(np.mean(crashes)) if crashes else None,
            "mean_reward": self.mean_reward,
            "mean_length": float(np.mean([episode.length for episode in self.episodes])),
            "episodes": len(self.episodes),
        }


def evaluate_policy(env: gym.Env, policy: Policy, episodes: int, seed: int) -> Evaluation:
    """Play ``episodes`` episodes, the first from ``seed``, the next from ``seed + 1`` and so on."""
    return Evaluation(list(play_many(env, policy, episodes, seed)))


def play_many(
    env: gym.Env, policy: Policy, episodes: int, seed: int, on_step: OnStep | None = None
) -> Iterator[Episode]:
    """Yield the same episodes one by one, as they end."""
    for index in range(episodes):
        yield play(env, policy, seed + index, on_step)


def sentence(summary: dict[str, float | int | None]) -> str:
    """Say a summary in a line."""
    low, high = summary["success_rate_low"], summary["success_rate_high"]
    parts = [
        f"success {summary['success_rate']:.1%} [{low:.1%}, {high:.1%}]",
        f"reached at any time {summary['reached_rate']:.1%}",
        *([f"crashed {summary['crash_rate']:.1%}"] if summary["crash_rate"] is not None else []),
        f"return {summary['mean_reward']:.2f}",
        f"length {summary['mean_length']:.1f}",
        f"({summary['episodes']} episodes)",
    ]
    return "   ".join(parts)
