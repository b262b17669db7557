"""Which goal each virtual transition gets: one function on index arrays per strategy, and one line of a
table.

A goal is a row of the storage (:mod:`rlher.her.storage`): the goal of a virtual transition is what was
achieved at that row. An episode of T steps owns the rows ``first … first + T``; the transition from row ``i``
ends at row ``i + 1``, so what it achieved itself is the goal of row ``i + 1``. Every offset is drawn by
flooring, never by rounding: rounding gives the two end points half their weight (a fault of mrl and
tianshou).

To add a strategy: name it in :mod:`rlher.her.choices`, write a function from :class:`Draw` to rows here, and add
its line to :data:`STRATEGIES`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.choices import KEY_TO_GOAL_STRATEGY, GoalSelectionStrategy

Rows = NDArray[np.integer[Any]]

KEEP = -1
"""In place of a row: keep the goal the transition was collected with."""


@dataclass(slots=True)
class Draw:
    """What a strategy may look at.

    :param row: (n,) row of each transition's observation.
    :param episode: (n,) number of its episode.
    :param firsts: first row of each episode, by number.
    :param lasts: newest row of each episode, by number: the final one, or the latest so far while it runs.
    :param rng: the buffer's generator.
    :param any_row: draws that many rows, uniformly over what any stored transition achieved.
    :param gamma: discount of the geometric strategy, in [0, 1].
    :param weights: weight of each strategy in a mix, and of ``"original"`` for the goal as collected.
    """

    row: Rows
    episode: NDArray
    firsts: Rows
    lasts: Rows
    rng: np.random.Generator
    any_row: Callable[[int], Rows]
    gamma: float = 0.95
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def first(self) -> Rows:
        """(n,) first row of each transition's episode."""
        return self.firsts.take(self.episode)

    @property
    def last(self) -> Rows:
        """(n,) newest row of each transition's episode; beyond the transition's own."""
        return self.lasts.take(self.episode)


def future(draw: Draw) -> Rows:
    """Draw uniformly from what the episode achieved from this transition on, its own outcome included.

    Inclusive as in SB3, so that one-step episodes relabel too (stable-baselines #578) and the last achieved
    state is reachable (stable-baselines #666).
    """
    last = draw.last
    return last - (draw.rng.random(len(last)) * (last - draw.row)).astype(np.int64)


def final(draw: Draw) -> Rows:
    """Take what the episode achieved last."""
    return draw.last


def episode(draw: Draw) -> Rows:
    """Draw uniformly from all that the episode achieved, before or after this transition."""
    last = draw.last
    return last - (draw.rng.random(len(last)) * (last - draw.first)).astype(np.int64)


def random(draw: Draw) -> Rows:
    """Draw uniformly from all that is stored."""
    return draw.any_row(len(draw.row))


def geometric(draw: Draw) -> Rows:
    """Draw from the discounted future: offset k ≥ 1 with probability ∝ γ^(k-1), cut off at the episode's end.

    That is the discounted future-state distribution of contrastive RL (arXiv:2206.07568). OGBench moves the
    mass beyond the end onto the last state; here it is spread again over what was seen, by inverting the
    distribution of the truncated geometric, so that no single state is favoured.
    """
    left = draw.last - draw.row
    if draw.gamma in (0, 1):  # the limits: the transition's own outcome, and every later one alike
        return draw.row + 1 if draw.gamma == 0 else future(draw)
    reached = 1.0 - draw.rng.random(len(left)) * (1.0 - draw.gamma**left)
    offset = np.ceil(np.log(reached) / np.log(draw.gamma)).astype(np.int64)
    return draw.row + np.clip(offset, 1, left)


def mix(draw: Draw) -> Rows:
    """Draw a strategy for each transition by weight, then a goal by that strategy.

    mrl's "rfaab" mixes and OGBench's value goals are mixes of this kind.
    """
    names = [name for name, weight in draw.weights.items() if weight > 0]
    share = np.cumsum([draw.weights[name] for name in names])
    chosen = np.searchsorted(share / share[-1], draw.rng.random(len(draw.row)), side="right")
    rows = np.full(len(draw.row), KEEP, dtype=np.int64)
    for number, name in enumerate(names):
        where = np.flatnonzero(chosen == number)
        if name != ORIGINAL and where.size:
            part = replace(draw, row=draw.row[where], episode=draw.episode[where])
            rows[where] = STRATEGIES[GoalSelectionStrategy(name)](part)
    return rows


ORIGINAL = "original"
"""The name under which a mix keeps the goal as collected."""

STRATEGIES: dict[GoalSelectionStrategy, Callable[[Draw], Rows]] = {
    GoalSelectionStrategy.FUTURE: future,
    GoalSelectionStrategy.FINAL: final,
    GoalSelectionStrategy.EPISODE: episode,
    GoalSelectionStrategy.RANDOM: random,
    GoalSelectionStrategy.GEOMETRIC: geometric,
    GoalSelectionStrategy.MIX: mix,
}


DEFAULT_MIX: dict[str, float] = {"future": 0.6, "episode": 0.1, "random": 0.1, ORIGINAL: 0.2}


def strategy_of(name: str | Enum) -> GoalSelectionStrategy:
    """Return the strategy of that name, or the one equal to a member of SB3's own enumeration.

    :raises ValueError: no such strategy.
    """
    key = (name.name if isinstance(name, Enum) else str(name)).lower()
    if key not in KEY_TO_GOAL_STRATEGY:
        raise ValueError(f"goal_selection_strategy={name!r} is not one of {', '.join(KEY_TO_GOAL_STRATEGY)}.")
    return KEY_TO_GOAL_STRATEGY[key]


def check_mix(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of a mix as floats.

    :raises ValueError: an unknown name, a mix within a mix, a negative weight, or nothing above zero.
    """
    known = [*(key for key in KEY_TO_GOAL_STRATEGY if key != GoalSelectionStrategy.MIX.value), ORIGINAL]
    for name, weight in weights.items():
        if name not in known:
            raise ValueError(f"goal_mix names {name!r}, which is not one of {', '.join(known)}.")
        if not weight >= 0 or not np.isfinite(weight):
            raise ValueError(f"goal_mix gives {name!r} the weight {weight}: it must be at least 0.")
    if not any(weights.values()):
        raise ValueError("goal_mix needs at least one weight above 0.")
    return {name: float(weight) for name, weight in weights.items()}
