"""Goal selection strategies: one function on index arrays each, with its name in :mod:`rlher.her.choices`.

A goal is a row of the storage (:mod:`rlher.her.storage`): the goal of a virtual transition is the goal achieved at
that row. An episode of T steps owns the rows ``first … first + T``; the transition from row ``i`` ends at row
``i + 1``, so its own outcome is the goal of row ``i + 1``. Every offset is drawn by flooring, never by rounding:
rounding gives the two end points half their weight (a bug of mrl and tianshou).

To add a strategy, write a function from :class:`Draw` to rows here, and add its name to
:class:`~rlher.her.choices.GoalSelectionStrategy`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.choices import KEY_TO_GOAL_STRATEGY, ORIGINAL, GoalSelectionStrategy

Rows = NDArray[np.integer[Any]]

KEEP = -1
"""In place of a row: keep the goal that the transition was collected with."""

DESIRED = -2
"""``DESIRED - row`` in place of a row: the goal desired at that row, not the one achieved there."""


@dataclass(slots=True)
class Draw:
    """Input of a strategy.

    :param row: (n,) row of each transition's observation.
    :param episode: (n,) index of its episode.
    :param firsts: first row of each episode, by index.
    :param lasts: newest row of each episode, by index: the final one, or the latest so far while it runs.
    :param rng: the buffer's generator.
    :param any_row: draws that many rows, uniformly over the outcomes of all stored transitions.
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
        """(n,) newest row of each transition's episode; always after the transition's own row."""
        return self.lasts.take(self.episode)


def future(draw: Draw) -> Rows:
    """Draw uniformly from the episode's outcomes from this transition on, its own outcome included.

    Inclusive as in SB3, so that one-step episodes are relabelled too (stable-baselines #578) and the last achieved
    state is reachable (stable-baselines #666).
    """
    last = draw.last
    return last - (draw.rng.random(len(last)) * (last - draw.row)).astype(np.int64)


def final(draw: Draw) -> Rows:
    """Return the episode's last outcome."""
    return draw.last


def episode(draw: Draw) -> Rows:
    """Draw uniformly from all outcomes of the episode, before or after this transition."""
    last = draw.last
    return last - (draw.rng.random(len(last)) * (last - draw.first)).astype(np.int64)


def random(draw: Draw) -> Rows:
    """Draw uniformly from the outcomes of all stored transitions."""
    return draw.any_row(len(draw.row))


def geometric(draw: Draw) -> Rows:
    """Draw from the discounted future: offset k ≥ 1 with probability ∝ γ^(k-1), truncated at the episode's end.

    That is the discounted future-state distribution of contrastive RL (arXiv:2206.07568). OGBench assigns the
    probability beyond the end to the last state; here the truncated distribution is normalised again, so that no
    single state is favoured.
    """
    left = draw.last - draw.row
    if draw.gamma == 0:  # the limit: the transition's own outcome
        return draw.row + 1
    if draw.gamma == 1:  # the limit: every later outcome alike
        return future(draw)
    reached = 1.0 - draw.rng.random(len(left)) * (1.0 - draw.gamma**left)
    offset = np.ceil(np.log(reached) / np.log(draw.gamma)).astype(np.int64)
    return draw.row + np.clip(offset, 1, left)


def desired(draw: Draw) -> Rows:
    """Draw uniformly from the desired goals of all stored transitions, mrl's "actual" goals.

    The other strategies only draw goals that were achieved, which in some tasks lie elsewhere than the desired ones. In
    a mix with ``future`` these goals teach what does not reach them. Alone they are hardly ever reached.
    """
    return DESIRED - (draw.any_row(len(draw.row)) - 1)


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


STRATEGIES: dict[GoalSelectionStrategy, Callable[[Draw], Rows]] = {
    strategy: globals()[strategy.value] for strategy in GoalSelectionStrategy
}


def strategy_of(name: str | Enum) -> GoalSelectionStrategy:
    """Return the strategy of that name, or of that member of SB3's own enumeration.

    :raises ValueError: no such strategy.
    """
    key = (name.name if isinstance(name, Enum) else str(name)).lower()
    if key not in KEY_TO_GOAL_STRATEGY:
        raise ValueError(f"goal_selection_strategy={name!r} is unknown; use {', '.join(KEY_TO_GOAL_STRATEGY)}.")
    return KEY_TO_GOAL_STRATEGY[key]
