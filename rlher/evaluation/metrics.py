"""The metrics of an evaluation. To add one, add an attribute to ``Episode`` and an entry to ``METRICS``.

Columns of ``evaluations.csv``, keys of ``result.json``, axis labels, logs and model cards derive from this list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlher.core.stats import wilson

Summary = dict[str, float | int | None]
"""Metric by name, the ends of the success rate's interval, and the number of episodes."""


@dataclass
class Episode:
    """The result of one episode, or of its steps so far.

    A step is one action of the agent. With ``env.action_repeat`` it covers several steps of the environment, and has
    the ``info`` of the last environment step.

    :param success: ``info["is_success"]`` at the last step, the measure of the HER literature.
    :param reached: ``info["is_success"]`` at any step.
    :param crashed: ``info["is_crash"]`` at any step; None if the environment does not report crashes.
    :param reward: sum of the rewards, undiscounted.
    :param length: number of steps.
    """

    seed: int
    success: bool = False
    reached: bool = False
    crashed: bool | None = None
    reward: float = 0.0
    length: int = 0

    @property
    def outcome(self) -> str:
        """How the episode ended: ``"success"``, ``"crashed"``, ``"reached, then left"`` or ``"missed"``."""
        if self.success:
            return "success"
        if self.crashed:
            return "crashed"
        return "reached, then left" if self.reached else "missed"

    def __str__(self) -> str:
        return f"{self.outcome:<18} return {self.reward:8.2f}   {self.length:4d} steps"


@dataclass(frozen=True)
class Metric:
    """One number about an evaluation: the mean of an attribute over its episodes.

    :param name: column of ``evaluations.csv`` and key of ``result.json``. Names of rates end in ``_rate``.
    :param attribute: attribute of :class:`Episode`; episodes where it is None do not count.
    :param label: name in printed lines and tables.
    :param axis: axis label in plots, with the unit.
    :param decimals: digits after the decimal point in printed lines and tables.
    """

    name: str
    attribute: str
    label: str
    axis: str
    decimals: int = 1

    @property
    def is_rate(self) -> bool:
        """Whether the metric lies in [0, 1] and is shown in per cent."""
        return self.name.endswith("_rate")

    def compute(self, episodes: Sequence[Episode]) -> float | None:
        """Return the mean of the attribute, None if no episode has it."""
        values = [getattr(episode, self.attribute) for episode in episodes]
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known else None

    def format(self, value: float) -> str:
        """Return the value as text, a rate in per cent."""
        return f"{value:.{self.decimals}%}" if self.is_rate else f"{value:.{self.decimals}f}"


SUCCESS_RATE = Metric("success_rate", "success", "success", "evaluation success rate")
METRICS = (
    SUCCESS_RATE,
    Metric("mean_reward", "reward", "mean return", "mean return", decimals=2),
    Metric("mean_length", "length", "mean length", "mean episode length, steps"),
    Metric("reached_rate", "reached", "reached at any time", "rate of episodes that reached the goal at any step"),
    Metric("crash_rate", "crashed", "crashed", "crash rate"),
)
METRICS_BY_NAME = {metric.name: metric for metric in METRICS}

SUCCESS_LOW, SUCCESS_HIGH = "success_rate_low", "success_rate_high"
"""Keys of the 95 % Wilson interval of the success rate."""

TARGET_PERCENT = 90
"""A success rate in per cent. Tuning compares the steps of the first evaluation that reaches it."""

STEPS_TO = (50, TARGET_PERCENT)
"""Success rates, in per cent, for which tables give the steps of the first evaluation that reached them."""

REQUIRED_KEYS = {*METRICS_BY_NAME, SUCCESS_LOW, SUCCESS_HIGH, "episodes"} - {"crash_rate"}
"""Keys that every summary has with a number."""


def summarize(episodes: Sequence[Episode]) -> Summary:
    """Return the metrics of at least one episode, as ``result.json`` holds them."""
    low, high = map(float, wilson(sum(episode.success for episode in episodes), len(episodes)))
    values = {metric.name: metric.compute(episodes) for metric in METRICS}
    return {**values, SUCCESS_LOW: low, SUCCESS_HIGH: high, "episodes": len(episodes)}


def format_cells(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each metric that a summary has, by label; rates first, the success rate with its interval."""
    cells = {}
    for metric in sorted(METRICS, key=lambda metric: not metric.is_rate):
        if (value := summary[metric.name]) is not None:
            cells[metric.label] = metric.format(value)
    low, high = summary[SUCCESS_LOW], summary[SUCCESS_HIGH]
    cells[SUCCESS_RATE.label] += f" [{SUCCESS_RATE.format(low)}, {SUCCESS_RATE.format(high)}]"
    return cells


def format_summary(summary: Mapping[str, Any]) -> str:
    """Return a summary as one line."""
    cells = [f"{label} {text}" for label, text in format_cells(summary).items()]
    return "   ".join([*cells, f"({summary['episodes']} episodes)"])
