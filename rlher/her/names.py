"""Values of config keys: names of strategies, priorities and done rules. Importing them does not import NumPy."""

from enum import Enum

RELABEL_DONE = ("auto", "keep", "success", "never")
"""Values of ``relabel_done``: how ``done`` of a virtual transition is decided, see :mod:`rlher.her.done_rule`."""

ORIGINAL = "original"
"""Name under which a mix keeps the goal as collected."""

DEFAULT_MIX = {"future": 0.6, "episode": 0.1, "random": 0.1, ORIGINAL: 0.2}
"""Weights of the strategy ``mix``, where none are given."""


class GoalSelectionStrategy(Enum):
    """Where the goals of virtual transitions come from (section 4.5 of the HER paper, arXiv:1707.01495).

    Each value is the name of a function in :mod:`rlher.her.strategies`.
    """

    FUTURE = "future"
    FINAL = "final"
    EPISODE = "episode"
    RANDOM = "random"
    GEOMETRIC = "geometric"
    DESIRED = "desired"
    MIX = "mix"


KEY_TO_GOAL_STRATEGY = {strategy.value: strategy for strategy in GoalSelectionStrategy}

PRIORITIES = {
    "uniform": "rlher.her.priorities:Priority",
    "energy": "rlher.her.priorities:Energy",
    "td_error": "rlher.her.priorities:TDError",
}
"""Classes by the value of ``priority``."""
